package config

import (
	"path/filepath"

	"github.com/exthost/exthost/config/internal/edit"
	"github.com/exthost/exthost/internal/file"
	"github.com/exthost/exthost/internal/text/strict"
)

// elsewhere are files that other programs read in a working directory, with the list that each holds: ContextForge's
// plugins and the catalog of mcpv.
var elsewhere = []struct{ file, list string }{
	{filepath.Join("plugins", "config.yaml"), "plugins"},
	{"catalog.yaml", "servers"},
}

// noteElsewhere warns about files of other programs in a directory that has no configuration: they are not read, and
// somebody may expect that.
func (l *loader) noteElsewhere() {
	for _, known := range elsewhere {
		path := filepath.Join(l.options.Dir, known.file)
		data, info, err := file.ReadRegular(path, edit.MaxBytes, false)
		if err != nil || l.owners.File(path, info) != nil {
			continue
		}
		if of := parse(path, data, new(strict.Report)).At(known.list); of != nil && of.Kind == strict.List {
			l.report.Warn(strict.Pos{File: path}, "exthost import "+known.file+" shows what it becomes here",
				"not read: it configures another program")
		}
	}
}
