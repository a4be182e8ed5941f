package watch

import (
	"cmp"
	"context"
	"log/slog"
	"strings"

	"github.com/exthost/exthost/status"
)

// problem returns why parts of a change are not in use, one reason a line; "" if all are.
func problem(c *status.Change, err error) string {
	if err != nil {
		return err.Error()
	}
	var lines []string
	for _, k := range c.Kept {
		for reason := range strings.SplitSeq(k.Reason, "\n") {
			lines = append(lines, k.ID+": "+reason)
		}
		if k.Evidence != nil {
			lines = append(lines, k.Evidence.Stderr...)
		}
	}
	for _, d := range c.Failed {
		lines = append(lines, d.String())
	}
	return strings.Join(lines, "\n")
}

// LogChange logs a change that was found and not applied, unless it is empty.
func LogChange(log *slog.Logger, c *status.Change) {
	if c.Empty() {
		return
	}
	attrs := []any{"next", "exthost reload applies it; exthost reload --watch reload does so by itself"}
	for _, part := range []struct {
		key  string
		list []string
	}{
		{"added", c.Added},
		{"changed", c.Changed},
		{"removed", c.Removed},
		{"skills", c.Skills},
		{"policies", c.Policies},
		{"files", c.Files},
	} {
		if len(part.list) > 0 {
			attrs = append(attrs, part.key, part.list)
		}
	}
	log.Info("changed on disk, and not applied", attrs...)
	LogUnused(log, c)
}

// LogUnused logs the parts of a change that cannot be used, and those that take effect only after a restart.
func LogUnused(log *slog.Logger, c *status.Change) {
	for _, k := range c.Kept {
		log.LogAttrs(context.Background(), slog.LevelWarn, "not reloaded, the build before goes on",
			slog.String("extension", k.ID), slog.String("reason", k.Reason),
			slog.String("next", cmp.Or(k.Next, "fix it, then exthost reload")))
	}
	for _, section := range c.Restart {
		log.Warn("changed, and takes effect when the host is started again", "section", section)
	}
}
