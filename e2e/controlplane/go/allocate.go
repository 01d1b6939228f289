//go:build kubernetes_1_36

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	dracel "k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
)

func init() { extra["allocate"] = allocateClaims }

// allocationSeconds is when the search of one question is given up: it is exponential.
const allocationSeconds = 5

// allocationQuestion asks for the claims of one pod on one node. Claims with an allocation are usage, the others are
// to be allocated, in this order.
type allocationQuestion struct {
	Slices  []*resourceapi.ResourceSlice `json:"slices"`
	Classes []*resourceapi.DeviceClass   `json:"classes"`
	Claims  []*resourceapi.ResourceClaim `json:"claims"`
	Node    *corev1.Node                 `json:"node"`
	// AlphaFeatures are off in kube-scheduler, and choose another variant of the allocator where they are on.
	AlphaFeatures bool `json:"alphaFeatures"`
}

// allocationAnswer is one of: Allocations, one per claim to be allocated; Infeasible, with a reason if there is one;
// Error, which ends the attempt for all nodes; TimedOut.
type allocationAnswer struct {
	Allocations []resourceapi.AllocationResult `json:"allocations,omitempty"`
	Infeasible  bool                           `json:"infeasible,omitempty"`
	Reason      string                         `json:"reason,omitempty"`
	Error       string                         `json:"error,omitempty"`
	TimedOut    bool                           `json:"timedOut,omitempty"`
}

// allocateClaims answers JSON lines of allocationQuestion on standard input with JSON lines of allocationAnswer on
// standard output, by the allocator that kube-scheduler uses.
func allocateClaims(_ []string) int {
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := bufio.NewWriter(os.Stdout)
	decoder, encoder := json.NewDecoder(in), json.NewEncoder(out)
	for decoder.More() {
		var question allocationQuestion
		if err := decoder.Decode(&question); err != nil {
			fmt.Fprintf(os.Stderr, "allocate: %v\n", err)
			return 1
		}
		if err := encoder.Encode(allocate(question)); err != nil {
			fmt.Fprintf(os.Stderr, "allocate: %v\n", err)
			return 1
		}
		// One answer per question at once: the other side may wait for it before it asks the next.
		if err := out.Flush(); err != nil {
			return 1
		}
	}
	return 0
}

func allocate(question allocationQuestion) (given allocationAnswer) {
	defer func() {
		if cause := recover(); cause != nil {
			given = allocationAnswer{Error: fmt.Sprintf("panic: %v", cause)}
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), allocationSeconds*time.Second)
	defer cancel()
	cache := dracel.NewCache(100, dracel.Features{
		EnableConsumableCapacity: true,
		EnableListTypeAttributes: question.AlphaFeatures,
	})
	state, wanted := splitClaims(question.Claims)
	allocator, err := structured.NewAllocator(ctx, features(question.AlphaFeatures), state, classes(question.Classes), question.Slices, cache)
	if err != nil {
		return allocationAnswer{Error: err.Error()}
	}
	allocations, err := allocator.Allocate(ctx, question.Node, wanted)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return allocationAnswer{TimedOut: true}
	case errors.Is(err, structured.ErrFailedAllocationOnNode):
		return allocationAnswer{Infeasible: true, Reason: err.Error()}
	case err != nil:
		return allocationAnswer{Error: err.Error()}
	case len(allocations) != len(wanted):
		return allocationAnswer{Infeasible: true}
	}
	return allocationAnswer{Allocations: allocations}
}

// splitClaims counts what is allocated as kube-scheduler does: admin access is no usage, a result with a share ID is a
// share, any other takes its device whole.
func splitClaims(claims []*resourceapi.ResourceClaim) (structured.AllocatedState, []*resourceapi.ResourceClaim) {
	state := structured.AllocatedState{
		AllocatedDevices:         sets.New[structured.DeviceID](),
		AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
	}
	var wanted []*resourceapi.ResourceClaim
	for _, claim := range claims {
		if claim.Status.Allocation == nil {
			wanted = append(wanted, claim)
			continue
		}
		for _, result := range claim.Status.Allocation.Devices.Results {
			device := structured.MakeDeviceID(result.Driver, result.Pool, result.Device)
			switch {
			case result.AdminAccess != nil && *result.AdminAccess:
			case result.ShareID == nil:
				state.AllocatedDevices.Insert(device)
			default:
				state.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(device, result.ShareID))
				if result.ConsumedCapacity != nil {
					consumed := structured.NewDeviceConsumedCapacity(device, result.ConsumedCapacity)
					state.AggregatedCapacity.Insert(consumed)
				}
			}
		}
	}
	return state, wanted
}

// classes is the lister that the allocator asks for device classes.
type classes []*resourceapi.DeviceClass

func (all classes) List() ([]*resourceapi.DeviceClass, error) { return all, nil }

func (all classes) Get(name string) (*resourceapi.DeviceClass, error) {
	for _, class := range all {
		if class.Name == name {
			return class, nil
		}
	}
	return nil, fmt.Errorf("no DeviceClass %q", name)
}
