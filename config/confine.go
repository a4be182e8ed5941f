package config

import (
	"github.com/exthost/exthost/governance/builtin"
	"github.com/exthost/exthost/internal/file"
	"github.com/exthost/exthost/internal/text/strict"
)

// confine refuses a project's configuration that has the host write files outside of the project's directory: a foreign
// project must not overwrite the user's files.
func (l *loader) confine() {
	bind := func(key, path string, dir *string) {
		if path == "" || !l.ofProject(key) {
			return
		}
		*dir = l.cfg.Project.Dir
		if _, err := file.RelativeBelow(*dir, path); err != nil {
			pos, _ := l.decoder.Positions.At(key)
			l.report.Add(pos, "choose a file below that directory; or state the path in the user's file, or in one of "+
				"--config FILE", "%s: a project's file can only name files of its directory to be written: %v", key,
				err)
		}
	}
	bind("log.file", l.cfg.Log.File, &l.cfg.Log.Within)
	bind("record.file", l.cfg.Record.File, &l.cfg.Record.Within)
	bind("audit.path", l.cfg.Audit.Path, &l.cfg.Audit.Within)
	for i := range l.cfg.Plugins {
		s := &l.cfg.Plugins[i]
		bind(strict.Index("plugins", i)+".config.file", builtin.Writes(s), &s.Within)
	}
}
