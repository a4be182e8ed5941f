//go:build ignore

// Generate writes rules.json from the gitleaks configuration, which it downloads as a Go module, and copies that
// project's LICENSE. It adapts the rules to redaction; the table below lists omitted ones with reasons.
package main

import (
	"encoding/json"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp/syntax"
	"strings"

	"github.com/BurntSushi/toml"
)

const source = "github.com/zricethezav/gitleaks/v8@v8.30.1"

// excluded are the omitted rules and the reasons.
var excluded = map[string]string{
	"aws-access-token":      "ours also takes ids that are no base 32, as people make them up to try it out",
	"curl-auth-header":      "ours finds the header wherever it stands",
	"curl-auth-user":        "takes any word after -u",
	"facebook-access-token": "its keyword is not part of what it matches",
	"jwt":                   "ours also takes tokens without an end",
	"private-key":           "ours also takes keys that are cut off",
	"sidekiq-sensitive-url": "ours finds the password of any address",
}

// keywords replaces keywords that are not at the start of a match.
var keywords = map[string][]string{
	"airtable-personnal-access-token": {"pat"},
	"cloudflare-origin-ca-key":        {"v1.0-"},
	"defined-networking-api-token":    {"dnkey"},
	"gocardless-api-token":            {"gocardless"},
	"intra42-client-secret":           {"s-s4t2ud-", "s-s4t2af-"},
	"lob-api-key":                     {"lob"},
	"lob-pub-api-key":                 {"lob"},
	"microsoft-teams-webhook":         {"webhook.office.com"},
	"new-relic-browser-api-token":     {"new-relic", "newrelic", "new_relic"},
	"new-relic-insert-key":            {"new-relic", "newrelic", "new_relic"},
	"new-relic-user-api-key":          {"new-relic", "newrelic", "new_relic"},
	"slack-config-access-token":       {"xoxe"},
	"sourcegraph-access-token":        {"sgp_"},
	"typeform-api-token":              {"typeform"},
}

// patches are replacements in expressions.
var patches = map[string][2]string{
	"microsoft-teams-webhook":  {`https://[a-z0-9]+\.`, `https://[a-z0-9]{1,63}\.`},
	"slack-webhook-url":        {`hooks.slack.com`, `hooks\.slack\.com`},
	"sourcegraph-access-token": {`|[a-fA-F0-9]{40})\b)`, `)\b)`}, // would match any commit hash
}

type sourceRule struct {
	ID, Regex, Path string
	Entropy         float64
	Keywords        []string
	Allowlists      []struct {
		Regexes     []string
		RegexTarget string
		StopWords   []string
	}
}

// rule is the format of rules.json.
type rule struct {
	ID       string   `json:"id"`
	Regex    string   `json:"regex"`
	Keywords []string `json:"keywords"`
	Bound    bool     `json:"bound,omitempty"`
	Assign   bool     `json:"assign,omitempty"`
	Lead     int      `json:"lead,omitempty"`
	Reach    int      `json:"reach,omitempty"`
	Entropy  float64  `json:"entropy,omitempty"`
	Allow    []string `json:"allow,omitempty"`
	Stop     []string `json:"stop,omitempty"`
	Off      bool     `json:"off,omitempty"`
}

func main() {
	dir := download()
	license, err := os.ReadFile(filepath.Join(dir, "LICENSE"))
	check(err)
	check(os.WriteFile("rules/LICENSE", license, 0o644))
	var file struct{ Rules []sourceRule }
	_, err = toml.DecodeFile(filepath.Join(dir, "config", "gitleaks.toml"), &file)
	check(err)
	var out strings.Builder
	out.WriteString("[\n")
	separator := ""
	for _, u := range file.Rules {
		if u.Regex == "" || u.Path != "" || excluded[u.ID] != "" { // rules with a path are for one kind of file
			continue
		}
		var line strings.Builder
		enc := json.NewEncoder(&line)
		enc.SetEscapeHTML(false)
		check(enc.Encode(adapt(u)))
		out.WriteString(separator + strings.TrimSuffix(line.String(), "\n"))
		separator = ",\n"
	}
	out.WriteString("\n]\n")
	check(os.WriteFile("rules/rules.json", []byte(out.String()), 0o644))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// download returns the module's directory in the module cache.
func download() string {
	out, err := exec.Command("go", "mod", "download", "-json", source).Output()
	check(err)
	var module struct{ Dir string }
	check(json.Unmarshal(out, &module))
	return module.Dir
}

const (
	anyName = `[\w.-]{0,50}?`                   // before a name; our matches begin at the name
	ending  = `(?:[\x60'"\s;]|\\[nr]|$)`        // after a secret in code; other texts have more separators
	assign  = `(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)` // between a name and a secret
)

func adapt(u sourceRule) rule {
	r := rule{ID: u.ID, Keywords: u.Keywords, Off: u.ID == "generic-api-key"}
	if k := keywords[u.ID]; k != nil {
		r.Keywords = k
	}
	regex := strings.ReplaceAll(u.Regex, anyName, "")
	if part, ok := patches[u.ID]; ok {
		regex = strings.Replace(regex, part[0], part[1], 1)
	}
	r.Assign = strings.Contains(regex, assign)
	if r.Assign {
		regex = strings.Replace(regex, ending, `(?:\W|$)`, 1)
		r.Entropy = u.Entropy // without a prefix the match alone is weak evidence
	} else {
		regex = strings.Replace(regex, ending, "", 1)
	}
	for _, a := range u.Allowlists {
		if a.RegexTarget == "" && r.Assign {
			r.Allow = append(r.Allow, a.Regexes...)
		}
		r.Stop = append(r.Stop, a.StopWords...)
	}
	r.Lead = lead(u.ID, regex, r.Keywords)
	if r.Lead == 0 {
		r.Bound = strings.Contains(regex, `\b`) &&
			(strings.HasPrefix(regex, `\b`) || strings.HasPrefix(regex, `(?i)\b`))
		if r.Bound {
			regex = strings.Replace(regex, `\b`, "", 1)
		}
	}
	r.Regex = regex
	parsed, err := syntax.Parse(regex, syntax.Perl)
	check(err)
	r.Reach = max(0, longest(parsed))
	return r
}

// longest returns the maximum length of a match in bytes, -1 if unlimited.
func longest(e *syntax.Regexp) int {
	sum, most := 0, 0
	for _, sub := range e.Sub {
		n := longest(sub)
		if n < 0 {
			return -1
		}
		sum, most = sum+n, max(most, n)
	}
	switch e.Op {
	case syntax.OpLiteral:
		return 4 * len(e.Rune)
	case syntax.OpCharClass, syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		if n := len(e.Rune); n > 0 && e.Rune[n-1] < 0x80 {
			return 1
		}
		return 4
	case syntax.OpStar, syntax.OpPlus:
		return -1
	case syntax.OpRepeat:
		if e.Max < 0 {
			return -1
		}
		return sum * e.Max
	case syntax.OpAlternate:
		return most
	}
	return sum
}

// lead returns the maximum number of bytes in a match before its first keyword. It also proves that every match has a
// keyword: it follows all paths through the expression that have read no keyword, until none is left.
func lead(id, regex string, keywords []string) int {
	const limit = 128
	parsed, err := syntax.Parse(regex, syntax.Perl)
	check(err)
	prog, err := syntax.Compile(parsed.Simplify())
	check(err)
	type state struct {
		pc   uint32
		tail string // the end of the input, as far as it may begin a keyword
	}
	states, latest := map[state]bool{}, 0
	follow(prog, uint32(prog.Start), func(pc uint32) { states[state{pc, ""}] = true })
	for depth := 1; len(states) > 0; depth++ {
		if depth > limit {
			log.Printf("%s: no keyword among the first %d bytes", id, limit)
		}
		next := map[state]bool{}
		for s := range states {
			inst := &prog.Inst[s.pc]
			if inst.Op == syntax.InstMatch {
				log.Printf("%s: matches %q without a keyword", id, s.tail)
			}
			for c := rune(0); c <= 0x80; c++ { // 0x80 stands for all non-ASCII characters
				if c >= 'A' && c <= 'Z' && inst.MatchRune(c|0x20) || !inst.MatchRune(c) {
					continue
				}
				tail, found := step(s.tail, c, keywords)
				if found > 0 {
					latest = max(latest, depth-found)
					continue
				}
				follow(prog, inst.Out, func(pc uint32) { next[state{pc, tail}] = true })
			}
		}
		states = next
	}
	return latest
}

// step appends c to tail and returns the length of the keyword that ends there, if any.
func step(tail string, c rune, keywords []string) (string, int) {
	tail = strings.ToLower(tail + string(c))
	for _, k := range keywords {
		if strings.HasSuffix(tail, k) {
			return "", len(k)
		}
	}
	for ; tail != ""; tail = tail[1:] {
		for _, k := range keywords {
			if strings.HasPrefix(k, tail) {
				return tail, 0
			}
		}
	}
	return "", 0
}

// follow visits the instructions that are reachable from pc without reading, and that read a character or end the
// match.
func follow(prog *syntax.Prog, pc uint32, visit func(uint32)) {
	seen := map[uint32]bool{}
	var walk func(uint32)
	walk = func(pc uint32) {
		if seen[pc] {
			return
		}
		seen[pc] = true
		switch inst := &prog.Inst[pc]; inst.Op {
		case syntax.InstAlt, syntax.InstAltMatch:
			walk(inst.Out)
			walk(inst.Arg)
		case syntax.InstCapture, syntax.InstNop, syntax.InstEmptyWidth:
			walk(inst.Out)
		case syntax.InstFail:
		default:
			visit(pc)
		}
	}
	walk(pc)
}
