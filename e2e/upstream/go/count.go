// Counts the pods that a workload of Kubernetes' scheduler_perf creates and a scheduler binds, instead of collecting
// metrics of the built-in scheduler, and reads the workload from a file of make perf.
//
// This file becomes part of a copy of the package test/integration/scheduler_perf; source.py says which line there
// calls it.
package benchmark

import (
	"encoding/json"
	"os"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/test/utils/client-go/ktesting"
)

const (
	workloadsVariable = "DOVETAIL_UPSTREAM_WORKLOADS" // a file in place of performance-config.yaml
	countVariable     = "DOVETAIL_UPSTREAM_COUNT"     // the file for podCount, written every second
)

// podCount is what a workload has come to. Seconds are from the first pod that waits to the last binding.
type podCount struct {
	Created int     `json:"created"`
	Bound   int     `json:"bound"`
	Seconds float64 `json:"seconds"`
	Ended   bool    `json:"ended"`
}

type podCounter struct {
	informer   coreinformers.PodInformer
	namespaces sets.Set[string]
	labels     map[string]string

	mutex       sync.Mutex
	count       podCount
	first, last time.Time
}

func init() {
	if os.Getenv(countVariable) == "" {
		return
	}
	getTestDataCollectors = func(informer coreinformers.PodInformer, _ string, namespaces []string, labels map[string]string, _ *metricsCollectorConfig, _ float64) []testDataCollector {
		return []testDataCollector{&podCounter{informer: informer, namespaces: sets.New(namespaces...), labels: labels}}
	}
}

func chosenWorkloads(path string) string {
	if chosen := os.Getenv(workloadsVariable); chosen != "" {
		return chosen
	}
	return path
}

func (counter *podCounter) init() error { return nil }

// collect is called where a workload has come to its end, and not where it fails.
func (counter *podCounter) collect() []DataItem {
	counter.write(true)
	return nil
}

func (counter *podCounter) run(tCtx ktesting.TContext) {
	handle, err := counter.informer.Informer().AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(added any, isThere bool) {
			pod := added.(*v1.Pod)
			if !isThere || pod.Spec.NodeName == "" {
				counter.see(pod, true, pod.Spec.NodeName != "")
			}
		},
		UpdateFunc: func(before, after any) {
			pod := after.(*v1.Pod)
			if before.(*v1.Pod).Spec.NodeName == "" && pod.Spec.NodeName != "" {
				counter.see(pod, false, true)
			}
		},
	})
	if err != nil {
		tCtx.Fatalf("counting pods: %v", err)
	}
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-tCtx.Done():
			_ = counter.informer.Informer().RemoveEventHandler(handle)
			counter.write(false)
			return
		case <-ticker.C:
			counter.write(false)
		}
	}
}

func (counter *podCounter) see(pod *v1.Pod, isNew, isBound bool) {
	if !counter.namespaces.Has(pod.Namespace) || !labelsMatch(pod.Labels, counter.labels) {
		return
	}
	counter.mutex.Lock()
	defer counter.mutex.Unlock()
	now := time.Now()
	if counter.first.IsZero() {
		counter.first = now
	}
	if isNew {
		counter.count.Created++
	}
	if isBound {
		counter.count.Bound++
		counter.last = now
	}
}

func (counter *podCounter) write(ended bool) {
	counter.mutex.Lock()
	count := counter.count
	if count.Bound > 0 {
		count.Seconds = counter.last.Sub(counter.first).Seconds()
	}
	counter.mutex.Unlock()
	count.Ended = ended
	content, err := json.Marshal(count)
	path := os.Getenv(countVariable)
	if err == nil {
		err = os.WriteFile(path+".new", content, 0o600)
	}
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		klog.ErrorS(err, "Writing the count of pods failed")
	}
}
