package version

import (
	"fmt"
	"path"
	"strings"

	"github.com/exthost/exthost/internal/text"
)

// installed is how this program came to be on this machine.
type installed struct {
	os, arch string
	slim     bool
	module   bool                   // by go install, of a version
	path     string                 // of the program, links resolved
	exists   func(path string) bool // whether there is a file
	root     bool                   // root asks
}

// upgrade returns the command that installs a version from the releases at address in the place of this program.
func (i installed) upgrade(address, version string) string {
	slash := strings.ReplaceAll(i.path, `\`, "/")
	program := "exthost"
	if i.slim {
		program += "-slim"
	}
	name := fmt.Sprintf("%s_%s_%s_%s", program, version, i.os, i.arch)
	from := address + "/download/v" + version + "/"
	switch {
	case i.module:
		return "go install -tags " + i.tags() + ` -ldflags "-s -w" github.com/exthost/exthost/cmd/exthost@v` + version
	case strings.Contains(slash, "/Caskroom/exthost/"):
		return "brew upgrade --cask exthost/tap/exthost"
	case strings.Contains(slash, "/scoop/apps/exthost/"):
		return "scoop update exthost"
	case strings.Contains(slash, "/WinGet/Packages/exthost.exthost"):
		return "winget upgrade exthost.exthost"
	case i.os == "windows":
		return "put the exthost.exe of " + from + name + ".zip in the place of this one"
	case i.slim:
		return i.script(address) + " --slim"
	case i.path != "/usr/bin/exthost": // no package has put it there
		return i.script(address)
	case i.exists("/var/lib/dpkg/info/exthost.list"):
		return fmt.Sprintf("curl -fsSLO %s%s.deb && sudo apt install ./%[2]s.deb", from, name)
	case i.exists("/lib/apk/db/installed"):
		return fmt.Sprintf("wget %s%s.apk && sudo apk add --allow-untrusted ./%[2]s.apk", from, name)
	case i.exists("/var/lib/pacman/local"):
		return "upgrade exthost-bin of the AUR, as you have installed it"
	case i.exists("/var/lib/rpm"), i.exists("/usr/lib/sysimage/rpm"):
		return fmt.Sprintf("sudo rpm --upgrade %s%s.rpm", from, name)
	}
	return i.script(address)
}

// script is the command that has install.sh put the latest release in the directory of this program.
func (i installed) script(address string) string {
	shell := "sh"
	if !i.root && (strings.HasPrefix(i.path, "/usr/") || strings.HasPrefix(i.path, "/opt/")) {
		shell = "sudo sh"
	}
	return fmt.Sprintf("curl -fsSL %s/latest/download/install.sh | %s -s -- --dir %s", address, shell,
		text.ShellLine([]string{path.Dir(i.path)}))
}

func (i installed) tags() string {
	if i.slim {
		return "grpcnotrace,slim"
	}
	return "grpcnotrace"
}
