// Package hosts finds the running host of a directory, or opens one for a command, and
// words for people what the status of a host says.
package hosts

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/cli/console"
)

// Load reads the configuration, with flags and those of c laid over it. It prints
// warnings on stderr; errors are one [console.Error] that lists all of them.
func Load(c *console.Console, flags ...config.Flag) (*config.Config, *config.Origins, error) {
	if len(c.Extensions) > 0 {
		dirs := make([]string, len(c.Extensions))
		for i, dir := range c.Extensions {
			abs, err := filepath.Abs(dir)
			if err != nil {
				return nil, nil, err
			}
			dirs[i] = abs
		}
		flags = append(flags, config.Flag{Name: "--extensions", Key: "extensions.search_paths", Values: dirs})
	}
	if c.LogLevel != "" {
		flags = append(flags, config.Flag{Name: "--log-level", Key: "log.level", Values: []string{c.LogLevel}})
	}
	cfg, origins, diags := config.Load(config.LoadOptions{File: c.Config, Flags: flags})
	if cfg == nil {
		lines := []string{"the configuration is invalid"}
		for _, d := range diags {
			lines = append(lines, fmt.Sprintf("  %s: %s", d.Level, console.Safe(console.Nearby(d).String())))
		}
		return nil, nil, &console.Error{Code: console.ExitInvalid, Text: strings.Join(lines, "\n"), Hint: "exthost schema config shows what can be said"}
	}
	for _, d := range diags {
		c.Say(d)
	}
	return cfg, origins, nil
}
