// It asks a kubelet which devices its containers have (the PodResources API, as monitoring agents do) and prints the
// answer as JSON: podresources SOCKET.
package main

import (
	"context"
	"fmt"
	"os"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protojson"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
)

func main() {
	if len(os.Args) != 2 {
		fail(fmt.Errorf("usage: podresources SOCKET"))
	}
	connection, err := grpc.NewClient("unix://"+os.Args[1], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		fail(err)
	}
	client := podresources.NewPodResourcesListerClient(connection)
	answer, err := client.List(context.Background(), &podresources.ListPodResourcesRequest{})
	if err != nil {
		fail(err)
	}
	text, err := protojson.Marshal(answer)
	if err != nil {
		fail(err)
	}
	fmt.Println(string(text))
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "podresources:", err)
	os.Exit(1)
}
