package hosts

import (
	"context"
	"strings"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/tools"
)

// Inspect opens a host for a command that changes nothing. It starts only the
// extensions that start selects; nil selects all.
func Inspect(ctx context.Context, c *console.Console, start func(id string) bool) (*exthost.Host, error) {
	cfg, _, err := Load(c)
	if err != nil {
		return nil, err
	}
	return Open(ctx, c, cfg, exthost.Options{Start: start, Inspect: true})
}

// Open opens a host for a command whose output tells the result, not the log.
func Open(ctx context.Context, c *console.Console, cfg *config.Config, o exthost.Options) (*exthost.Host, error) {
	log, err := c.QuietLogger(cfg.Log)
	if err != nil {
		return nil, err
	}
	o.Logger = log
	return exthost.Open(ctx, cfg, o)
}

// None selects no extension.
func None(string) bool { return false }

// Owners selects the extensions that may have the tool with this registered name: all
// of them when the name was shortened, which hides the id.
func Owners(tool string) func(id string) bool {
	return func(id string) bool { return tools.MayOwn(id, tool) }
}

// ForCall selects what a call of a tool, or to an extension, needs: the policies, and
// the extensions that may have the tool.
func ForCall(extension, tool string) func(id string) bool {
	return func(id string) bool {
		return strings.HasPrefix(id, exthost.PolicyPrefix) || id == extension || tool != "" && tools.MayOwn(id, tool)
	}
}
