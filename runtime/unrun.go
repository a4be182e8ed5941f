package runtime

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/file"
	"github.com/exthost/exthost/internal/proc/process"
	"github.com/exthost/exthost/internal/text/display"
	"github.com/exthost/exthost/protocol"
)

// maxUnrunName bounds the name of a program in a message, in characters.
const maxUnrunName = 100

// explainUnrun adds to the error of a process whose launcher, such as a shell, env or npx, could not run a program: its
// name and, where npx looked for it in the wrong place, the reason.
func (s *Spec) explainUnrun(fault *protocol.Error) {
	e := fault.Evidence
	if fault.Kind != protocol.ChildExited || e.ExitCode == nil {
		return
	}
	name := process.Exit{Code: *e.ExitCode}.Unrun(e.Stderr)
	if name == "" {
		return
	}
	shown := display.Cut(display.Escape(name), maxUnrunName)
	switch {
	case strings.ContainsAny(name, `/\`):
		fault.Message += fmt.Sprintf("; %s is missing, or may not be executed", shown)
	case s.insidePackage():
		fault.Message += fmt.Sprintf("; there is no program %s on its PATH: in its working directory %s, which is the "+
			"source of that package, npx runs what is there and installs nothing: state another cwd", shown,
			s.WorkDir())
	default:
		fault.Message += fmt.Sprintf("; there is no program %s on its PATH: install it, or state its full path", shown)
	}
}

// maxPackageJSON is the largest package.json that is read, in bytes.
const maxPackageJSON = 1 << 20

// insidePackage reports whether npx runs a package in the folder of that package, which it then takes for installed.
func (s *Spec) insidePackage() bool {
	argv, err := s.CommandLine()
	if err != nil || !strings.HasPrefix(filepath.Base(argv[0]), "npx") {
		return false
	}
	data, _, err := file.ReadRegular(filepath.Join(s.WorkDir(), "package.json"), maxPackageJSON, true)
	var p struct{ Name string }
	if err != nil || json.Unmarshal(data, &p) != nil || p.Name == "" {
		return false
	}
	return slices.ContainsFunc(argv[1:], func(word string) bool {
		return word == p.Name || strings.HasPrefix(word, p.Name+"@")
	})
}
