package process

import (
	"regexp"
	"slices"
	"strings"
)

// The exit statuses by which shells, env, npx and other launchers report that they could not run a program.
const (
	exitNotExecutable = 126
	exitNotFound      = 127
)

// unrun matches the lines in which shells and launchers name a program that they could not run, such as
//
//	sh: 1: exec: tsx: not found
//	/usr/bin/env: ‘node’: No such file or directory
//	bash: line 3: ./run: Permission denied
var unrun = regexp.MustCompile(`(?:^|[:\s])(?:exec: |failed to run command |can't execute )?['"‘\x60]?` +
	`([^:'"‘’\x60\s][^:'"‘’\x60]*)['"’\x60]?: ` +
	`(?:command not found|not found|No such file or directory|Permission denied|Is a directory|` +
	`Exec format error|cannot execute\b.*|bad interpreter\b.*)$`)

// unrunByZsh matches such lines of zsh.
var unrunByZsh = regexp.MustCompile(
	`^\S*zsh:\d*:? ?(?:command not found|no such file or directory|permission denied): (\S.*)$`)

// Bounds of the lines that are examined: how many, and the bytes of each.
const (
	maxUnrun     = 16
	maxUnrunLine = 1000
)

// Unrun returns the program that a process could not run, as the last lines of its stderr name it. It returns "" if the
// exit status is another than those of a program that cannot be run, or if no line names one.
func (e Exit) Unrun(stderr []string) string {
	if e.Code != exitNotExecutable && e.Code != exitNotFound {
		return ""
	}
	for _, line := range slices.Backward(stderr[max(0, len(stderr)-maxUnrun):]) {
		if line = strings.TrimSpace(line); len(line) > maxUnrunLine {
			continue
		}
		for _, pattern := range []*regexp.Regexp{unrun, unrunByZsh} {
			if m := pattern.FindStringSubmatch(line); m != nil {
				return m[1]
			}
		}
	}
	return ""
}
