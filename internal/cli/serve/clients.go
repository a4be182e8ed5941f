package serve

import (
	"fmt"

	"github.com/exthost/exthost/internal/cli/console"
)

// clients says where the tools are served, and how to connect the usual clients, in
// commands and files to copy.
func (g *greeting) clients(f front) {
	if f.url == "" {
		fmt.Fprintf(&g.b, "serving one MCP client on stdin and stdout\n")
		return
	}
	url := f.url + "/mcp"
	fmt.Fprintf(&g.b, "serving %s\n", g.c.Paint(console.Bold, url))
	if f.exposed {
		fmt.Fprintf(&g.b, "to other machines too, with the token, below in $%s\n", f.token)
	}
	fmt.Fprintln(&g.b)
	for _, c := range clientSetups(url, f.token) {
		fmt.Fprintf(&g.b, "  %s%s\n      %s\n", c.name, g.c.Paint(console.Dim, c.where), c.what)
	}
	fmt.Fprintf(&g.b, "\ndashboard %s\n", g.c.Paint(console.Bold, f.url+"/ui/#token="+f.operator.text))
	fmt.Fprintln(&g.b, "\nCtrl-C stops everything.")
}

// clientSetup connects one client to the server.
type clientSetup struct {
	name, where, what string // where is "" for a command, else ", in FILE"
}

// clientSetups name the variable that holds the token, never the token.
func clientSetups(url, tokenEnv string) []clientSetup {
	claude := "claude mcp add --transport http exthost " + url
	codex := "codex mcp add exthost --url " + url
	headers := ""
	if tokenEnv != "" {
		claude += fmt.Sprintf(` --header "Authorization: Bearer $%s"`, tokenEnv)
		codex += " --bearer-token-env-var " + tokenEnv
		headers = fmt.Sprintf(`,"headers":{"Authorization":"Bearer ${env:%s}"}`, tokenEnv)
	}
	return []clientSetup{
		{"Claude Code", "", claude},
		{"Codex", "", codex},
		{"Cursor", ", in .cursor/mcp.json", fmt.Sprintf(`{"mcpServers":{"exthost":{"url":%q%s}}}`, url, headers)},
		{"VS Code", ", in .vscode/mcp.json", fmt.Sprintf(`{"servers":{"exthost":{"type":"http","url":%q%s}}}`, url, headers)},
	}
}
