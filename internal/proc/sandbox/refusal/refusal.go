// Package refusal recognizes what a confined program prints when its sandbox refuses something.
package refusal

import (
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
)

// How programs report that they were refused a file, a name, a connection or a system call, in lower case. Each text is
// searched by itself: one regular expression for all takes thirty times as long, and every line on stderr is searched.
var (
	// unresolved are those about the name of a host
	unresolved = []phrase{
		{text: "enotfound", word: true},
		{text: "eai_again", word: true},
		{text: "fetch failed", word: true},
		{text: "name resolution"},
		{text: "name or service not known"},
		{text: "could not resolve host"},
	}
	reports = append([]phrase{
		{text: "eacces", word: true},
		{text: "eperm", word: true},
		{text: "erofs", word: true},
		{text: "enetunreach", word: true},
		{text: "module_not_found", word: true}, // of Node.js, also for a module that it may not read
		{text: "err_module_not_found", word: true},
		{text: "cannot find module"},
		{text: "cannot find package"},
		{text: "no module named"},
		{text: "permission denied"},
		{text: "operation not permitted"},
		{text: "read-only file system"},
		{text: "access is denied"},
		{text: "no usable temporary directory"},
		{text: "network is unreachable"},
		{text: "connection issue"},
		{text: "connection error"},
		{text: "failed to connect"},
		{text: "unable to connect"},
	}, unresolved...)
)

// phrase is a text by which a report is recognized.
type phrase struct {
	text string
	word bool // only where text is no part of a longer word
}

// index returns the place of the first p in text, which is in lower case; -1 if there is none.
func (p phrase) index(text string) int {
	for from := 0; ; {
		n := strings.Index(text[from:], p.text)
		if n < 0 {
			return -1
		}
		at := from + n
		if from = at + len(p.text); !p.word || !inWord(text[:at], text[from:]) {
			return at
		}
	}
}

// inWord reports whether a word goes on across a text with before and after around it.
func inWord(before, after string) bool {
	return before != "" && isWord(before[len(before)-1]) || after != "" && isWord(after[0])
}

func isWord(b byte) bool { return b == '_' || '0' <= b && b <= '9' || 'a' <= b && b <= 'z' }

// lower returns text with the letters A to Z in lower case, and everything else where it was.
func lower(text string) string {
	b := []byte(text)
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

const (
	maxText = 64 << 10    // bytes that are searched
	maxLine = 300         // bytes of a returned line
	again   = time.Minute // between two records in the log
)

// Find returns the first line of text with which a program reports an access that a sandbox may have refused; "" if
// there is none. A program without a sandbox says the same of a file that does not let it in.
func Find(text string) string {
	text = text[:min(len(text), maxText)]
	folded, first, end := lower(text), -1, 0
	for _, p := range reports {
		if at := p.index(folded); at >= 0 && (first < 0 || at < first) {
			first, end = at, at+len(p.text)
		}
	}
	if first < 0 {
		return ""
	}
	from, to := strings.LastIndexByte(text[:first], '\n')+1, len(text)
	if n := strings.IndexByte(text[end:], '\n'); n >= 0 {
		to = end + n
	}
	from, to = max(from, end-maxLine/2), min(to, end+maxLine/2)
	return strings.TrimSpace(strings.ToValidUTF8(text[from:to], ""))
}

// Next returns the command that finds out what the sandbox of the extension in dir refuses. If line is from [Find] and
// tells that the program has not used the proxy of its sandbox, Next says that too.
func Next(dir string, proxy bool, line string) string {
	next := "exthost check --sandbox " + dir
	folded := lower(line)
	if proxy && slices.ContainsFunc(unresolved, func(p phrase) bool { return p.index(folded) >= 0 }) {
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
