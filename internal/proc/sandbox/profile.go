package sandbox

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/exthost/exthost/internal/file"
	"github.com/exthost/exthost/internal/proc/sandbox/confine"
	"github.com/exthost/exthost/manifest/sandbox"
)

// devices are readable and writable for every program.
var devices = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"}

// system lists the programs, libraries and data shared by all programs. Every user can read all of it.
var system = []string{
	"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store",
	"/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives", "/etc/os-release",
	"/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/ssl/cert.pem", "/etc/ca-certificates", "/etc/pki/tls/certs",
	"/etc/pki/tls/cert.pem",
	"/etc/pki/tls/openssl.cnf", "/etc/pki/ca-trust/extracted", "/etc/crypto-policies",
	"/etc/resolv.conf", "/etc/hosts", "/etc/host.conf", "/etc/nsswitch.conf", "/etc/gai.conf", "/etc/protocols",
	"/etc/services",
	"/etc/gitconfig", "/etc/localtime", "/etc/timezone", "/etc/locale.alias", "/etc/locale.conf", "/etc/mime.types",
	"/etc/passwd", "/etc/group", // names of users
	"/sys/devices/system/cpu", "/sys/kernel/mm/transparent_hugepage",
	"/proc/meminfo", "/proc/cpuinfo", "/proc/stat", "/proc/loadavg", "/proc/uptime", "/proc/version",
	"/proc/filesystems",
	"/proc/sys/kernel/osrelease", "/proc/sys/kernel/ngroups_max", "/proc/sys/kernel/cap_last_cap",
	"/proc/sys/kernel/random/uuid",
	"/proc/sys/vm/overcommit_memory", "/proc/sys/net/core/somaxconn",
}

// profileReads returns the rules for what the profile lets programs read.
func (p *Policy) profileReads(program string) (rules []confine.Rule) {
	if p.Profile == sandbox.ProfileNone {
		return nil
	}
	for _, path := range slices.Concat(system, cgroupLimits()) {
		rules = append(rules, confine.Rule{Path: path, Links: true})
	}
	switch p.Profile {
	case sandbox.ProfileNode:
		rules = append(append(rules, confine.Rule{Path: "/etc/nodejs"}),
			p.installations(program, "lib/node_modules", "include/node")...)
		if path := p.packageOf(program, nil); path != "" && path != real(program) { // in node_modules/.bin
			rules = append(rules, confine.Rule{Path: path})
		}
	case sandbox.ProfilePython:
		rules = append(rules, p.installations(program, "lib/python3*", "pyvenv.cfg")...)
	case sandbox.ProfileUV:
		rules = append(rules, p.installations(program, "lib/python3*", "pyvenv.cfg")...)
		if home, err := os.UserHomeDir(); err == nil { // not all of .local/share/uv: it has credentials too
			for _, dir := range []string{".local/share/uv/python", ".local/share/uv/tools", ".cache/uv"} {
				rules = append(rules, confine.Rule{Path: real(filepath.Join(home, dir))})
			}
		}
	}
	return rules
}

// cgroupLimits returns the files with the limits of the control group that this process and its children are in.
// Runtimes size themselves by them.
var cgroupLimits = sync.OnceValue(func() (files []string) {
	text, _ := os.ReadFile("/proc/self/cgroup") // without it, there are no files
	for line := range strings.Lines(string(text)) {
		const root = "/sys/fs/cgroup"
		group, ok := strings.CutPrefix(strings.TrimSpace(line), "0::/") // version 2
		for dir := filepath.Join(root, group); ok && within(dir, root); dir = filepath.Dir(dir) {
			for _, name := range []string{"cgroup.controllers", "cpu.max", "memory.high", "memory.max"} {
				files = append(files, filepath.Join(dir, name))
			}
		}
	}
	return files
})

// installed are the parts of an installation that its programs read. The rest may be anything: the installation of pip
// install --user is ~/.local.
var installed = []string{"bin", "lib", "lib64", "libexec", "include", "ssl", "pyvenv.cfg"}

// installations returns the rules for the interpreter's installations: the one of program, and those of each symbolic
// link and #! line on the way to the interpreter, such as in virtual environments. marks are glob patterns, one of
// which an installation contains. Programs in a folder called shims belong to a version manager, such as pyenv, whose
// folder is the one above: they run scripts there to find the interpreter.
func (p *Policy) installations(program string, marks ...string) (rules []confine.Rule) {
	for range 8 { // each step may be in another installation
		bin := real(filepath.Dir(program))
		dir := filepath.Dir(bin)
		if filepath.Base(bin) == "shims" && !isPersonal(dir) && p.At.refuse(dir) == nil {
			rules = append(rules, confine.Rule{Path: dir})
		} else if !isPersonal(dir) && slices.ContainsFunc(marks, func(mark string) bool { return matches(dir, mark) }) {
			for _, part := range installed {
				if path := real(filepath.Join(dir, part)); p.At.refuse(path) == nil && !isPersonal(path) {
					rules = append(rules, confine.Rule{Path: path})
				}
			}
		}
		if to, err := os.Readlink(program); err == nil {
			if !filepath.IsAbs(to) {
				to = filepath.Join(filepath.Dir(program), to)
			}
			program = to
		} else if program = interpreter(program); program == "" {
			break
		}
	}
	return rules
}

// matches reports whether dir has a file that matches pattern.
func matches(dir, pattern string) bool {
	found, _ := filepath.Glob(filepath.Join(dir, pattern))
	return found != nil
}

// interpreter returns the program in the #! line of a script, looked up on PATH if env looks it up; "" for other files.
func interpreter(script string) string {
	f, _, err := file.OpenRegular(script, os.O_RDONLY, 0)
	if err != nil {
		return ""
	}
	defer f.Close()
	line, _ := bufio.NewReader(io.LimitReader(f, 256)).ReadString('\n')
	words := strings.Fields(strings.TrimPrefix(line, "#!"))
	if !strings.HasPrefix(line, "#!") || len(words) == 0 || !filepath.IsAbs(words[0]) {
		return ""
	}
	if n := slices.IndexFunc(words[1:], func(w string) bool { return !strings.HasPrefix(w, "-") }); n >= 0 &&
		filepath.Base(words[0]) == "env" {
		if found, err := exec.LookPath(words[n+1]); err == nil && filepath.IsAbs(found) {
			return found
		}
	}
	return words[0]
}

// isPersonal reports whether dir is or contains a home directory: a program in ~/bin does not make the home directory
// an installation.
func isPersonal(dir string) bool {
	home, err := os.UserHomeDir()
	return dir == "/" || dir == "/home" || filepath.Dir(dir) == "/home" || err == nil && within(real(home), dir)
}
