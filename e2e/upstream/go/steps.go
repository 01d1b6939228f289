// Leaves out or replaces what a test of pod groups does inside the built-in scheduler.
//
// This file becomes part of a copy of the package in test/integration/scheduler/podgroup/stepsframework.
package podgroup

import "testing"

// seenFromOutside returns a step that needs only the API server, or skips the test.
func seenFromOutside(t *testing.T, step Step) Step {
	switch {
	case step.WaitForPodsInUnschedulableEntities != nil:
		return Step{Name: step.Name, WaitForPodsUnschedulable: step.WaitForPodsInUnschedulableEntities}
	case step.WaitForPodsInActiveQ != nil, step.VerifyPodSchedulingAttempts != nil, step.RunScheduleOne:
		t.Skip("looks into the scheduler's queue")
	}
	return step
}
