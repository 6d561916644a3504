// Karpenter's own scheduler, asked once: which nodes it would make for pods, in a cluster without nodes.
//
// Standard input: {"nodePool": NodePool, "pods": [Pod], "instance": {"name": …, "resources": {…}}}.
// Standard output: {"nodeClaims": COUNT, "errors": {POD: REASON}}.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	fakecr "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/log"

	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/cloudprovider/fake"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/events"
	"sigs.k8s.io/karpenter/pkg/operator/logging"
	"sigs.k8s.io/karpenter/pkg/operator/options"
)

type question struct {
	NodePool *v1.NodePool  `json:"nodePool"`
	Pods     []*corev1.Pod `json:"pods"`
	Instance struct {
		Name      string              `json:"name"`
		Resources corev1.ResourceList `json:"resources"`
	} `json:"instance"`
}

func ask(ctx context.Context, asked question) (scheduling.Results, error) {
	types := []*cloudprovider.InstanceType{fake.NewInstanceType(asked.Instance.Name, fake.WithResources(asked.Instance.Resources))}
	byPool := map[string][]*cloudprovider.InstanceType{asked.NodePool.Name: types}
	pools := []*v1.NodePool{asked.NodePool}
	provider := fake.NewCloudProvider()
	provider.InstanceTypes = types
	client, now := fakecr.NewFakeClient(), &clock.RealClock{}
	cluster := state.NewCluster(now, client, provider)
	topology, err := scheduling.NewTopology(ctx, client, cluster, nil, pools, byPool, asked.Pods)
	if err != nil {
		return scheduling.Results{}, err
	}
	recorder := events.NewRecorder(&record.FakeRecorder{})
	scheduler := scheduling.NewScheduler(ctx, client, pools, cluster, nil, topology, byPool, nil, recorder, now, nil, nil)
	return scheduler.Solve(ctx, asked.Pods)
}

func run() error {
	log.SetLogger(logging.NopLogger)
	var asked question
	if err := json.NewDecoder(os.Stdin).Decode(&asked); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(options.ToContext(context.Background(), &options.Options{}), time.Minute)
	defer cancel()
	results, err := ask(ctx, asked)
	if err != nil {
		return err
	}
	refused := map[string]string{}
	for pod, reason := range results.PodErrors {
		refused[pod.Name] = reason.Error()
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]any{"nodeClaims": len(results.NewNodeClaims), "errors": refused})
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
