// Leaves out or replaces what a test of pod groups does inside the built-in scheduler.
//
// This file becomes part of a copy of the package in test/integration/scheduler/podgroup/stepsframework.
package podgroup

import (
	"context"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"

	testutils "dovetail/e2e/upstream/util"
)

// seenFromOutside returns a step that needs only the API server, or skips the test.
func seenFromOutside(testCtx *testutils.TestContext, t *testing.T, ns string, step Step) Step {
	switch {
	case step.WaitForPodsInUnschedulableEntities != nil:
		waitForPodsNotScheduled(testCtx, t, ns, step.WaitForPodsInUnschedulableEntities)
		return Step{Name: step.Name, WaitForPodsUnschedulable: []string{}}
	case step.WaitForPodsInActiveQ != nil, step.VerifyPodSchedulingAttempts != nil, step.RunScheduleOne:
		t.Skip("looks into the scheduler's queue")
	}
	return step
}

// waitForPodsNotScheduled waits until conditions say that pods wait, for whatever reason.
func waitForPodsNotScheduled(testCtx *testutils.TestContext, t *testing.T, ns string, names []string) {
	for _, name := range names {
		err := wait.PollUntilContextTimeout(testCtx.Ctx, 100*time.Millisecond, wait.ForeverTestTimeout, false,
			func(ctx context.Context) (bool, error) {
				pod, err := testCtx.ClientSet.CoreV1().Pods(ns).Get(ctx, name, metav1.GetOptions{})
				if err != nil {
					return false, err
				}
				_, condition := podutil.GetPodCondition(&pod.Status, v1.PodScheduled)
				return condition != nil && condition.Status == v1.ConditionFalse, nil
			})
		if err != nil {
			t.Fatalf("pod %s is not said to wait: %v", name, err)
		}
	}
}
