// A kubelet, linked from its Go module as the control plane's components are.
package main

import (
	"context"
	"os"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // the client's own series in /metrics
	_ "k8s.io/component-base/metrics/prometheus/version"  // kubernetes_build_info in /metrics
	"k8s.io/kubernetes/cmd/kubelet/app"
)

func main() {
	os.Exit(cli.Run(app.NewKubeletCommand(context.Background())))
}
