package config

import (
	"path/filepath"

	"github.com/exthost/exthost/governance/builtin"
	"github.com/exthost/exthost/internal/text/below"
	"github.com/exthost/exthost/internal/text/strict"
)

// confine restricts the files that a project's configuration has the host write to the project's directory, so
// that a foreign project cannot overwrite the user's files.
func confine(cfg *Config, stated strict.Positions, report *strict.Report) {
	bind := func(key, path string, dir *string) {
		pos, _ := stated.At(key)
		file, err := filepath.Abs(pos.File)
		if _, ofProject := cfg.Project.Files[file]; path == "" || pos.File == "" || err != nil || !ofProject {
			return
		}
		*dir = cfg.Project.Dir
		if _, err := below.Relative(*dir, path); err != nil {
			report.Add(pos, "choose a file below that directory; or state the path in the user's file, or in one of "+
				"--config FILE", "%s: a project's file can only name files of its directory to be written: %v", key,
				err)
		}
	}
	bind("log.file", cfg.Log.File, &cfg.Log.Within)
	bind("record.file", cfg.Record.File, &cfg.Record.Within)
	bind("audit.path", cfg.Audit.Path, &cfg.Audit.Within)
	for i := range cfg.Plugins {
		s := &cfg.Plugins[i]
		bind(strict.Index("plugins", i)+".config.file", builtin.Writes(s), &s.Within)
	}
}
