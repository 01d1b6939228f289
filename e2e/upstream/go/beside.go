// Starts a scheduler as a process in place of the one that Kubernetes' scheduler_perf starts in its own process.
//
// This file becomes part of a copy of the package test/integration/util; source.py says which line there calls it.
package util

import (
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler"
	kubeschedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
)

// measuredTest is a schedulerTest with a client.
type measuredTest interface {
	schedulerTest
	Client() clientset.Interface
}

// startMeasured takes the place of StartSchedulerWithDone. The informers are those that the built-in scheduler creates
// and scheduler_perf then asks for pods and pod groups.
func startMeasured(test measuredTest, config *kubeschedulerconfig.KubeSchedulerConfiguration, registry frameworkruntime.Registry) (*scheduler.Scheduler, informers.SharedInformerFactory, <-chan struct{}) {
	if len(registry) > 0 {
		test.Skip("adds plugins of its own to the scheduler")
	}
	factory := scheduler.NewInformerFactory(test.Client(), 0, nil)
	factory.Core().V1().Pods().Informer()
	if utilfeature.DefaultFeatureGate.Enabled(features.GenericWorkload) {
		factory.Scheduling().V1beta1().PodGroups().Informer()
	}
	ended, err := startProcess(test, test.Name(), test.RESTConfig(), profilesOf(config.Profiles))
	if err != nil {
		test.Fatalf("starting the scheduler: %v", err)
	}
	return nil, factory, ended
}
