package agentplugin_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/exthost/exthost/manifest/agentplugin"
)

func Example() {
	dir, err := os.MkdirTemp("", "reports")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			panic(err)
		}
	}
	write("plugin.json", `{"$schema": "`+agentplugin.PluginSchema+`", "name": "reports"}`)
	write("mcp.json", `{"$schema": "`+agentplugin.ServersSchema+`", "mcpServers": {
		"db": {"type": "stdio", "command": "npx", "args": ["-y", "db-server"]},
		"web": {"type": "stdio", "command": "npx -y web-server"}
	}}`)

	p := agentplugin.Read(dir, agentplugin.Options{})
	for _, s := range p.Servers {
		fmt.Printf("%s %v %q\n", s.ID, s.Valid, s.Section)
	}
	fmt.Println(p.Servers[1].Reason)
	// Output:
	// reports.db true ""
	// reports.web false "7.2.1"
	// command "npx -y web-server" is a whole line: it is one name, and arguments belong into args
}
