package exthost_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
)

// A host with one extension, whose tool is a command line.
func Example() {
	dir, err := os.MkdirTemp("", "example-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	manifest := `[plugin]
id = "greeter"
version = "0.1.0"
[transport]
kind = "exec"
command = "echo"
[[tools]]
name = "greet"
description = "Greets."
command = ["echo", "Hello!"]
`
	if err := os.WriteFile(filepath.Join(dir, "plugin.toml"), []byte(manifest), 0o600); err != nil {
		fmt.Println(err)
		return
	}
	cfg := config.Default()
	cfg.Extensions.SearchPaths = []string{dir}
	ctx := context.Background()
	h, err := exthost.Open(ctx, cfg,
		exthost.Options{Logger: slog.New(slog.DiscardHandler), StateDir: filepath.Join(dir, "state")})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer h.Close()

	for _, tool := range h.Tools().Entries() {
		fmt.Println(tool.Name, tool.Description)
	}
	result, err := h.Call(ctx, "ext_greeter_greet", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(result.Text())
	// Output:
	// ext_greeter_greet [ext:greeter] Greets.
	// Hello!
}
