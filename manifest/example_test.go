package manifest_test

import (
	"fmt"

	"github.com/exthost/exthost/manifest"
)

func ExampleParse() {
	_, diags := manifest.Parse("weather/plugin.toml", []byte(`
[plugin]
id = "weather"
version = "0.1"

[capabilities]
tools = ["forecast"]

[transport]
command = "./weather"
arg = ["-v"]
`))
	for _, d := range diags {
		fmt.Println(d)
	}
	// Output:
	// weather/plugin.toml:4:1: plugin.version: want a version such as 0.1.0, got "0.1"
	// weather/plugin.toml:11:1: unknown key "arg" in [transport]; did you mean "args"?
}
