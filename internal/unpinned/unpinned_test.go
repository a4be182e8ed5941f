package unpinned

import (
	"strings"
	"testing"
)

func TestPackage(t *testing.T) {
	for line, want := range map[string]string{
		"npx -y @modelcontextprotocol/server-memory":       "@modelcontextprotocol/server-memory",
		"npx -y @modelcontextprotocol/server-memory@1.2.3": "",
		"npx server@latest --flag":                         "server@latest",
		"/usr/bin/npx --yes -- server":                     "server",
		"npx -p pkg bin":                                   "pkg",
		"npx --package=pkg@1 bin":                          "",
		"uvx mcp-server-git":                               "mcp-server-git",
		"uvx mcp-server-git==0.6":                          "",
		"uvx --from git+https://example.com/x server":      "",
		"uvx --python 3.12 server":                         "server",
		"pnpm dlx server":                                  "server",
		"npm install server":                               "",
		"npm exec server@2":                                "",
		"pipx run server":                                  "server",
		"npx ./local":                                      "",
		"npx ${PKG}":                                       "",
		"npx":                                              "",
		"node server.js":                                   "",
	} {
		if got := Package(strings.Fields(line)); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}
