package hosts

import (
	"context"
	"encoding/json"
	"path/filepath"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/protocol"
)

// Scope says which extensions a command is about. A running host with another scope
// has other --config or --extensions, and does not answer for the command.
func Scope(c *console.Console, cfg *config.Config) string {
	file := c.Config
	if abs, err := filepath.Abs(file); err == nil && file != "" {
		file = abs
	}
	scope, _ := json.Marshal([]any{file, cfg.Extensions.SearchPaths}) // strings always encode
	return string(scope)
}

// sameFlags reports whether a scope is that of a host with the flags of c. It does not
// compare the search paths of the configuration.
func sameFlags(c *console.Console, scope string) bool {
	var file string
	var paths []string
	if json.Unmarshal([]byte(scope), &[]any{&file, &paths}) != nil {
		return false
	}
	cfg := config.Default()
	cfg.Extensions.SearchPaths = paths
	return len(c.Extensions) == 0 && Scope(c, cfg) == scope
}

// Reach reads the configuration and finds the host of this directory that runs with it
// and with the flags of c; else r is nil. err is that of a configuration which has been
// broken since the host started: r is set nonetheless, and a warning printed.
func Reach(ctx context.Context, c *console.Console) (r *Running, cfg *config.Config, err error) {
	r, absent := Find(ctx)
	cfg, _, err = Load(c)
	switch {
	case err == nil && (absent != nil || r.Info.Scope != Scope(c, cfg)):
		return nil, cfg, nil
	case err == nil:
		return r, cfg, nil
	case absent != nil || !sameFlags(c, r.Info.Scope):
		return nil, nil, err
	}
	c.Say(protocol.Diagnostic{Level: protocol.LevelWarn, Message: "the configuration is broken by now, and the exthost that runs goes on with what it was", Hint: "exthost validate says where"})
	return r, config.Default(), err
}
