//go:build kubernetes_1_36

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"

	resourceapi "k8s.io/api/resource/v1"
	dracel "k8s.io/dynamic-resource-allocation/cel"
)

func init() { extra["cel-eval"] = evaluateExpressions }

// celDevice has the fields of a Device of a ResourceSlice that an expression can see, by their API names, and the
// driver of the slice.
type celDevice struct {
	Driver                   string                                                    `json:"driver"`
	AllowMultipleAllocations *bool                                                     `json:"allowMultipleAllocations,omitempty"`
	Attributes               map[resourceapi.QualifiedName]resourceapi.DeviceAttribute `json:"attributes,omitempty"`
	Capacity                 map[resourceapi.QualifiedName]resourceapi.DeviceCapacity  `json:"capacity,omitempty"`
}

type celQuestion struct {
	Expression string      `json:"expression"`
	Devices    []celDevice `json:"devices"`
}

// celAnswer is one of: CompileError alone, or Answers, one per device in order.
type celAnswer struct {
	CompileError string          `json:"compileError,omitempty"`
	Answers      []celEvaluation `json:"answers,omitempty"`
}

// celEvaluation is one of: Result, or RuntimeError. Cost is what the evaluation cost by the interpreter's own count.
type celEvaluation struct {
	Result       *bool   `json:"result,omitempty"`
	RuntimeError string  `json:"runtimeError,omitempty"`
	Cost         *uint64 `json:"cost,omitempty"`
}

// evaluateExpressions answers JSON lines of celQuestion on standard input with JSON lines of celAnswer on standard
// output, by the CEL environment that kube-scheduler evaluates selectors in (the one for stored expressions).
func evaluateExpressions(_ []string) int {
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := bufio.NewWriter(os.Stdout)
	decoder, encoder := json.NewDecoder(in), json.NewEncoder(out)
	for decoder.More() {
		var question celQuestion
		if err := decoder.Decode(&question); err != nil {
			fmt.Fprintf(os.Stderr, "cel-eval: %v\n", err)
			return 1
		}
		if err := encoder.Encode(answer(question)); err != nil {
			fmt.Fprintf(os.Stderr, "cel-eval: %v\n", err)
			return 1
		}
		// One answer per question at once: the other side may wait for it before it asks the next.
		if err := out.Flush(); err != nil {
			return 1
		}
	}
	return 0
}

// answer turns a panic of the environment into an error: some expressions make its compiler panic.
func answer(question celQuestion) (given celAnswer) {
	defer func() {
		if cause := recover(); cause != nil {
			given = celAnswer{CompileError: fmt.Sprintf("panic: %v", cause)}
		}
	}()
	compiler := dracel.GetCompiler(dracel.Features{EnableConsumableCapacity: true, EnableListTypeAttributes: true})
	compiled := compiler.CompileCELExpression(question.Expression, dracel.Options{DisableCostEstimation: true})
	if compiled.Error != nil {
		return celAnswer{CompileError: compiled.Error.Error()}
	}
	for _, device := range question.Devices {
		given.Answers = append(given.Answers, evaluate(compiled, device))
	}
	return given
}

func evaluate(compiled dracel.CompilationResult, device celDevice) (evaluation celEvaluation) {
	defer func() {
		if cause := recover(); cause != nil {
			evaluation = celEvaluation{RuntimeError: fmt.Sprintf("panic: %v", cause)}
		}
	}()
	matches, details, err := compiled.DeviceMatches(context.Background(), dracel.Device(device))
	if details != nil {
		evaluation.Cost = details.ActualCost()
	}
	if err != nil {
		evaluation.RuntimeError = err.Error()
	} else {
		evaluation.Result = &matches
	}
	return evaluation
}
