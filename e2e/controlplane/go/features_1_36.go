//go:build kubernetes_1_36 && !kubernetes_1_37

package main

import "k8s.io/dynamic-resource-allocation/structured"

// features returns what kube-scheduler 1.36 allocates by.
func features(alpha bool) structured.Features {
	return structured.Features{
		AdminAccess:            true,
		ConsumableCapacity:     true,
		DeviceBindingAndStatus: true,
		DeviceTaints:           true,
		ListTypeAttributes:     alpha,
		PartitionableDevices:   true,
		PrioritizedList:        true,
	}
}
