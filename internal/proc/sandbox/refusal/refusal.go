// Package refusal recognizes what a confined program prints when its sandbox refuses something.
package refusal

import (
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"time"
)

// words are how programs report that they were refused a file, a name, a connection or a system call. Node.js reports a
// module that it may not read as one that is not there.
const words = `permission denied|operation not permitted|read-only file system|access is denied|` +
	`\b(EACCES|EPERM|EROFS|ENOTFOUND|EAI_AGAIN|ENETUNREACH|(ERR_)?MODULE_NOT_FOUND)\b|` +
	`cannot find (module|package)|no module named|no usable temporary directory|` +
	`network is unreachable|connection (issue|error)|(failed|unable) to connect|` + noName

// noName is how programs report that they could not look up the name of a host.
const noName = `\bfetch failed\b|name resolution|name or service not known|could not resolve host`

var (
	reported   = regexp.MustCompile(`(?i)` + words)
	unresolved = regexp.MustCompile(`(?i)\b(ENOTFOUND|EAI_AGAIN)\b|` + noName)
)

const (
	maxText = 64 << 10    // bytes that are searched
	maxLine = 300         // bytes of a returned line
	again   = time.Minute // between two records in the log
)

// Find returns the first line of text with which a program reports an access that a sandbox may have refused; "" if
// there is none. A program without a sandbox says the same of a file that does not let it in.
func Find(text string) string {
	text = text[:min(len(text), maxText)]
	at := reported.FindStringIndex(text)
	if at == nil {
		return ""
	}
	from, to := strings.LastIndexByte(text[:at[0]], '\n')+1, len(text)
	if end := strings.IndexByte(text[at[1]:], '\n'); end >= 0 {
		to = at[1] + end
	}
	from, to = max(from, at[1]-maxLine/2), min(to, at[1]+maxLine/2)
	return strings.TrimSpace(strings.ToValidUTF8(text[from:to], ""))
}

// Next returns the command that finds out what the sandbox of the extension in dir refuses. If line is from [Find] and
// tells that the program has not used the proxy of its sandbox, Next says that too.
func Next(dir string, proxy bool, line string) string {
	next := "exthost check --sandbox " + dir
	if proxy && unresolved.MatchString(line) {
		next += "; its sandbox has no names of hosts, but a proxy (HTTPS_PROXY), which Node.js uses from version 24 on"
	}
	return next
}

// Log keeps and logs what the programs of one sandbox report. Its methods are safe for concurrent use.
type Log struct {
	log   *slog.Logger
	dir   string
	proxy bool

	mu     sync.Mutex // guards the fields below
	line   string
	logged time.Time
}

// NewLog returns the Log of the extension in dir. proxy reports whether its sandbox has one.
func NewLog(log *slog.Logger, dir string, proxy bool) *Log {
	return &Log{log: log, dir: dir, proxy: proxy}
}

// Hear keeps and returns the line of text that [Find] finds, and logs it at most once a minute.
func (l *Log) Hear(text string) (line string) {
	if line = Find(text); line == "" {
		return ""
	}
	l.mu.Lock()
	l.line = line
	log := l.logged.IsZero() || time.Since(l.logged) >= again
	if log {
		l.logged = time.Now()
	}
	l.mu.Unlock()
	if log {
		l.log.Warn("its sandbox may have refused what it reports", "line", line, "next", Next(l.dir, l.proxy, line))
	}
	return line
}

// Last returns the latest line that Hear has kept; "" for none.
func (l *Log) Last() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.line
}
