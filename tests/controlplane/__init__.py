"""A real kube-apiserver with its etcd on loopback, for tests that must not believe a fake."""
