"""The Kubernetes API.

`client` is the way in. `informer` keeps objects of one kind in a store by list and watch, `lists` reads them once,
`lease` elects a leader, `reviews` asks who a caller is and what it may do. `responses` checks everything that a
server answers.
"""
