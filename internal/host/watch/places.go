package watch

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/discovery"
	"github.com/exthost/exthost/internal/host/descriptors"
	"github.com/exthost/exthost/internal/listing/skills"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/manifest/agentplugin"
	"github.com/exthost/exthost/runtime"
)

// Program is an extension or a destination of a host.
type Program struct {
	Spec   *runtime.Spec
	Source descriptors.Source
}

// Places returns the paths where a change may matter: the searched directories, the files of cfg with the targets
// of links, and the files of programs. programs include those of the previous plan, which may go on running.
func Places(cfg *config.Config, searched []string, programs []Program) discovery.Places {
	dirs := slices.Clone(searched)
	files := make(map[string]bool)
	add := func(file string) {
		files[file] = true
		dirs = append(dirs, filepath.Dir(file))
	}
	for _, file := range cfg.Files {
		add(file)
		if target, err := filepath.EvalSymlinks(file); err == nil && target != file {
			add(target)
		}
	}
	var withDev []*runtime.Spec
	for _, p := range programs {
		for _, file := range descriptors.OwnFiles(p.Spec) {
			add(file)
		}
		if len(p.Source.Dirs) > 0 {
			withDev = append(withDev, p.Spec)
			dirs = append(dirs, p.Source.Dirs...)
		}
	}
	slices.Sort(dirs)
	return discovery.Places{
		Dirs:   slices.Compact(dirs),
		Ignore: cfg.Extensions.IgnoreDirs,
		Wants: func(path string) bool {
			switch filepath.Base(path) {
			case manifest.FileName, manifest.SidecarName, agentplugin.FileName, agentplugin.ServersName,
				agentplugin.TablesName:
				return true
			}
			return files[path] || isOfSkill(path) ||
				slices.ContainsFunc(withDev, func(s *runtime.Spec) bool { return descriptors.MatchesDev(s, path) })
		},
	}
}

// isOfSkill reports whether a path is a folder of skills or lies below one.
func isOfSkill(path string) bool {
	return strings.Contains(filepath.ToSlash(path)+"/", "/"+skills.Folder+"/")
}
