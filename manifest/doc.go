// Package manifest defines plugin.toml, the file that makes a folder an extension.
//
// [Parse] reads a manifest strictly and reports all errors at once with their lines and columns:
//
//	m, diags := manifest.Parse("extensions/weather/plugin.toml", data)
//	for _, d := range diags {
//		fmt.Println(d) // extensions/weather/plugin.toml:7:1: unknown key "arg" in [transport]; did you mean "args"?
//	}
//
// [ReadFile] reads a file from disk and adds the MCP servers of a .mcp.json beside it. [Schema] is the file's JSON
// Schema, for editors.
package manifest
