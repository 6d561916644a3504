// The CNCF registry, as its configuration file says; or, with `referrers`, the one of go-containerregistry, which has the
// referrers API that the other lacks. Both print where they listen.
package main

import (
	"context"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"

	"github.com/distribution/distribution/v3/configuration"
	"github.com/distribution/distribution/v3/registry/handlers"
	"github.com/google/go-containerregistry/pkg/registry"

	_ "github.com/distribution/distribution/v3/registry/auth/htpasswd"
	_ "github.com/distribution/distribution/v3/registry/auth/token"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/inmemory"
)

func main() {
	handler, err := handlerOf(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(listener.Addr())
	log.Fatal(http.Serve(listener, handler))
}

func handlerOf(name string) (http.Handler, error) {
	if name == "referrers" {
		return registry.New(registry.WithReferrersSupport(true)), nil
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	config, err := configuration.Parse(file)
	if err != nil {
		return nil, err
	}
	return handlers.NewApp(context.Background(), config), nil
}
