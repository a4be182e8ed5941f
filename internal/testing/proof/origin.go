package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"
)

// from is where the figures of a page come from.
type from struct{ commit, machine string }

// origin looks at the checkout and the machine.
func origin() (from, error) {
	commit, err := output("git", "rev-parse", "--short=12", "HEAD")
	changed, statusErr := output("git", "status", "--porcelain", "--", ".", ":!docs/proof")
	version, versionErr := output("go", "env", "GOVERSION")
	if err := errors.Join(err, statusErr, versionErr); err != nil {
		return from{}, err
	}
	if changed != "" {
		commit += " with changes"
	}
	machine := fmt.Sprintf("%s/%s, %d processors", runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
	if model := first("/proc/cpuinfo", `(?m)^model name\s*: (.+)$`); model != "" {
		machine += " (" + model + ")"
	}
	if kB, err := strconv.Atoi(first("/proc/meminfo", `(?m)^MemTotal:\s+(\d+) kB$`)); err == nil {
		machine += fmt.Sprintf(", %d GiB", (kB+1<<19)>>20)
	}
	machine += ", Go " + strings.TrimPrefix(version, "go")
	if load := first("/proc/loadavg", `^(\S+)`); load != "" {
		machine += ", with a load of " + load + " before"
	}
	return from{commit, machine}, nil
}

// first returns what a file says first, "" if it does not.
func first(file, pattern string) string {
	text, _ := os.ReadFile(file) // other systems have no such file
	m := regexp.MustCompile(pattern).FindSubmatch(text)
	if m == nil {
		return ""
	}
	return string(m[1])
}

func output(name string, args ...string) (string, error) {
	out, err := exec.Command(name, args...).Output()
	if err != nil {
		var said string
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			said = string(exit.Stderr)
		}
		return "", fmt.Errorf("%s %s: %w %s", name, strings.Join(args, " "), err, cmp.Or(said, string(out)))
	}
	return strings.TrimSpace(string(out)), nil
}
