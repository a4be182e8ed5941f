// Package manifest is the model of plugin.toml, the one file that makes a
// folder an extension.
//
// [Parse] reads a manifest strictly and reports everything that is wrong with
// it at once, each finding with its line and column:
//
//	m, diags := manifest.Parse("extensions/weather/plugin.toml", data)
//	for _, d := range diags {
//		fmt.Println(d) // extensions/weather/plugin.toml:7:1: unknown key "arg" in [transport]; did you mean "args"?
//	}
//
// [ReadFile] does the same for a file on disk and adds the MCP servers of a
// .mcp.json beside it. [Schema] is the JSON Schema of the file, for editors.
package manifest
