package discovery_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/exthost/exthost/discovery"
)

const weather = `
plugin = { id = "weather", version = "0.1.0" }
capabilities.tools = ["forecast"]
transport.command = "./weather"
requires = { env = ["WEATHER_KEY"], hint = { WEATHER_KEY = "ask for one at weather.example" } }
`

func Example() {
	root, err := os.MkdirTemp("", "extensions")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(root)
	if err := os.Mkdir(filepath.Join(root, "weather"), 0o755); err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "weather", "plugin.toml"), []byte(weather), 0o644); err != nil {
		log.Fatal(err)
	}

	r, err := discovery.Discover(context.Background(), discovery.Options{SearchPaths: []string{root}})
	if err != nil {
		log.Fatal(err)
	}
	noEnv := func(string) (string, bool) { return "", false }
	for _, c := range r.Candidates {
		fmt.Println(c.ID, c.Manifest.Plugin.Version)
		for _, d := range discovery.Gate(&c, discovery.Host{LookupEnv: noEnv}) {
			fmt.Println(d.Message + ": " + d.Hint)
		}
	}
	// Output:
	// weather 0.1.0
	// the variable WEATHER_KEY is not set: ask for one at weather.example; set it in extensions.entries.weather.env or its env_file, then exthost reload; or in the environment of exthost serve, and start that again
}
