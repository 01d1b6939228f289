// Compares the message of a pod's condition with what Kubernetes' integration tests expect of kube-scheduler's.
//
// This file becomes part of a copy of the package test/integration/dra; source.py says which comparisons call it.
package dra

import (
	"os"
	"strings"

	"github.com/onsi/gomega"
	gtypes "github.com/onsi/gomega/types"
)

// beginsLike wants another scheduler's message to begin with kube-scheduler's list of counts; it may then say more.
// What kube-scheduler adds about preemption behind its list is left out.
func beginsLike(expected string) gtypes.GomegaMatcher {
	if os.Getenv("DOVETAIL_UPSTREAM_SCHEDULER") == "" {
		return gomega.Equal(expected)
	}
	counts, _, _ := strings.Cut(expected, "preemption: ")
	return gomega.HavePrefix(counts[:strings.LastIndex(counts, ".")+1])
}
