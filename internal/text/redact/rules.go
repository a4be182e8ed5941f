package redact

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// rule is a kind of secret. A match begins at a keyword, or at most Lead bytes before it.
type rule struct {
	ID       string   `json:"id"`
	Regex    string   `json:"regex"` // RE2; the secret is the first matching group, else the whole match
	Keywords []string `json:"keywords"`
	Bound    bool     `json:"bound"`   // no letter, digit or _ comes before the match
	Assign   bool     `json:"assign"`  // the match is a name, an operator such as =, then the secret
	Lead     int      `json:"lead"`    // 0: the match begins at the keyword
	Reach    int      `json:"reach"`   // maximum length of a match in bytes; 0: unlimited
	Entropy  float64  `json:"entropy"` // minimum entropy of the secret, in bits per byte
	Allow    []string `json:"allow"`   // expressions for texts that are not secrets
	Stop     []string `json:"stop"`    // words that no secret contains
	Off      bool     `json:"off"`     // disabled by default
	Need     string   `json:"-"`       // expression that every secret matches; "": none

	// find replaces Regex: it returns the match around text[at], where a keyword begins.
	find func(text []byte, at int) (s span, ok bool)

	compiled func() expressions
}

type expressions struct {
	match  *regexp.Regexp
	prefix string // common to all matches
	allow  []*regexp.Regexp
	need   *regexp.Regexp // nil: none
}

//go:generate go run rules/generate.go

//go:embed rules/rules.json
var rulesJSON []byte

// ownRules are written here rather than generated.
var ownRules = []rule{
	{ // token of a named client of a host
		ID: "exthost-client-token", Keywords: []string{"exthost_"}, Bound: true, Reach: 51, Entropy: 4.3,
		Regex: `exthost_[\w-]{43}`,
	},
	{
		ID: "private-key", Keywords: []string{"-----begin"},
		Regex: `(?i)-----BEGIN[ A-Z0-9_-]{0,100}PRIVATE KEY(?: BLOCK)?-----[\s\S]*?(?:-----END[ A-Z0-9_-]{0,100}-----|\z)`,
	},
	{
		ID: "aws-access-token", Keywords: []string{"a3t", "akia", "asia", "abia", "acca"}, Reach: 20,
		Regex: `(?:A3T[A-Z0-9]|AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}`,
	},
	{
		ID: "aws-secret-key", Keywords: []string{
			"aws_secret",
			"aws-secret",
			"secretaccesskey",
			"secret_access_key",
			"secret access key",
		}, Assign: true, Reach: 128,
		Regex: `(?i)(?:aws[_-]secret|secret[_ ]?access[_ ]?key)[\w-]{0,20}["'\s]{0,3}(?:=>|:=|=|:|,)["'\s]{0,5}([a-z0-9/+]{40})(?:[^a-z0-9/+=]|$)`,
	},
	{
		ID: "jwt", Keywords: []string{"eyj", "eya", "ewo"}, Bound: true,
		Regex: `e[yw][A-Za-z0-9_-]{10,}\.e[yw][A-Za-z0-9_-]{10,}(?:\.[A-Za-z0-9_-]*)*`,
	},
	{
		ID: "authorization-header", Keywords: []string{"authorization"},
		Regex: `(?i)authorization["']?[ \t]{0,5}[:=][ \t]{0,5}["']?(?:basic|bearer|(?:api-?)?token)[ \t]{1,5}([\w=~.+/-]{8,})`,
	},
	{
		ID: "url-password", Keywords: []string{"://"}, Reach: 512,
		Regex: `://[^\s/:@"'<>{}$]{0,100}:([^\s/@"'<>{}$]{3,200})@`,
	},
	{
		ID: "password", Keywords: []string{"password", "passwd", "passphrase", "pwd"}, Assign: true, Reach: 200,
		Regex: `(?i)(?:password|passwd|passphrase|pwd)["']?[ \t]{0,3}(?::=|=|:)[ \t]{0,3}(?:"([^"\s]{6,128})(?:"|$)|'([^'\s]{6,128})(?:'|$)|([^\s"'<>&,;()\[\]{}]{6,128})(?:[\s"'<>&,;)\]}]|$))`,
		Need:  `[0-9!@#%^*?~+]`, // otherwise a word of a sentence or of code
		Allow: []string{
			`^[$%/.~<]`,
			`^(?i:x+|\*+|\.+|#+|\d{1,3})$`,
			`^[A-Za-z_]\w*(?:\.\w+)+$`,
			`^(?i)(?:your|my|the|some|new|old)[-_]?pass`,
			`\[redacted`,
			`://`,
		},
	},
	{
		ID: "azure-storage-key", Keywords: []string{"accountkey", "sharedaccesskey"}, Reach: 128,
		Regex: `(?i)(?:accountkey|sharedaccesskey)["']?\s{0,3}[=:]\s{0,3}["']?([a-z0-9+/]{42,86}={1,2})`,
	},
	{
		ID: "azure-sas", Keywords: []string{"sig="}, Bound: true, Reach: 128,
		Regex: `sig=([A-Za-z0-9%+/]{42,80}(?:%3[Dd]|=))`,
	},
	{
		ID:       "anthropic-key",
		Keywords: []string{"sk-ant-"},
		Bound:    true,
		Reach:    220,
		Regex:    `sk-ant-[a-z]{2,8}[0-9]{2}-[A-Za-z0-9_-]{20,200}`,
	},
	{
		ID:       "google-oauth-secret",
		Keywords: []string{"gocspx-"},
		Bound:    true,
		Reach:    64,
		Regex:    `GOCSPX-[A-Za-z0-9_-]{28}`,
	},
	{ID: "google-oauth-token", Keywords: []string{"ya29."}, Bound: true, Regex: `ya29\.[A-Za-z0-9_-]{30,}`},
	{ID: "groq-api-key", Keywords: []string{"gsk_"}, Bound: true, Reach: 64, Regex: `gsk_[A-Za-z0-9]{52}`},
	{ID: "xai-api-key", Keywords: []string{"xai-"}, Bound: true, Reach: 96, Regex: `xai-[A-Za-z0-9]{80}`},
	{ID: "replicate-api-token", Keywords: []string{"r8_"}, Bound: true, Reach: 48, Regex: `r8_[A-Za-z0-9]{37}`},
	{
		ID:       "stripe-webhook-secret",
		Keywords: []string{"whsec_"},
		Bound:    true,
		Reach:    96,
		Regex:    `whsec_[A-Za-z0-9+/]{32,64}={0,2}`,
	},
	{
		ID:       "docker-hub-token",
		Keywords: []string{"dckr_"},
		Bound:    true,
		Reach:    48,
		Regex:    `dckr_(?:pat|oat)_[A-Za-z0-9_-]{27,32}`,
	},
	{ID: "supabase-token", Keywords: []string{"sbp_"}, Bound: true, Reach: 48, Regex: `sbp_[a-f0-9]{40}`},
	{
		ID:       "tailscale-key",
		Keywords: []string{"tskey-"},
		Bound:    true,
		Reach:    96,
		Regex:    `tskey-(?:auth|api|client|scim|webhook)-[A-Za-z0-9]{8,24}-[A-Za-z0-9]{20,48}`,
	},
	{
		ID:       "langsmith-api-key",
		Keywords: []string{"lsv2_"},
		Bound:    true,
		Reach:    64,
		Regex:    `lsv2_(?:pt|sk)_[a-f0-9]{32}_[a-f0-9]{10}`,
	},
	{
		ID:       "discord-webhook",
		Keywords: []string{"/api/webhooks/"},
		Reach:    128,
		Regex:    `/api/webhooks/[0-9]{17,20}/([A-Za-z0-9_-]{60,80})`,
	},
	{ID: "email", Keywords: []string{"@"}, find: findEmail},
	{ID: "card"}, // appendCards, without keyword
	{
		ID: "phone", Keywords: []string{"+"}, Reach: 24, Off: true,
		Regex: `\+[1-9](?:[ .()-]{0,2}[0-9]){7,14}\b`,
	},
}

// rulesByID returns the built-in rules.
var rulesByID = sync.OnceValue(func() map[string]*rule {
	var all []rule
	if err := json.Unmarshal(rulesJSON, &all); err != nil {
		panic(err) // generated; covered by a test
	}
	all = append(all, ownRules...)
	byID := make(map[string]*rule, len(all))
	for i := range all {
		r := &all[i]
		r.compiled = sync.OnceValue(r.compile)
		byID[r.ID] = r
	}
	return byID
})

// compile compiles the expressions of r. It runs when a keyword of r is found for the first time, because most rules
// are never used.
func (r *rule) compile() (e expressions) {
	e.prefix, _ = regexp.MustCompile(r.Regex).LiteralPrefix()
	regex := r.Regex
	if r.Lead == 0 {
		regex = `\A(?:` + regex + `)`
	}
	e.match = regexp.MustCompile(regex)
	for _, allow := range r.Allow {
		e.allow = append(e.allow, regexp.MustCompile(allow))
	}
	if r.Need != "" {
		e.need = regexp.MustCompile(r.Need)
	}
	return e
}

// at returns the match whose keyword begins at text[p].
func (r *rule) at(text []byte, p int) (span, bool) {
	if r.find != nil {
		return r.find(text, p)
	}
	if r.Bound && p > 0 && isWord(text[p-1]) && !escaped(text, p-1) || r.Assign && !assigns(text[p:]) {
		return span{}, false
	}
	e := r.compiled()
	from := p
	if r.Lead > 0 {
		from = max(0, p-r.Lead-1)
	} else if len(text)-p < len(e.prefix) || string(text[p:p+len(e.prefix)]) != e.prefix {
		return span{}, false
	}
	loc := r.search(e.match, text, from, p)
	if loc == nil {
		return span{}, false
	}
	s := secretOf(loc, from, r.ID)
	return s, (e.need == nil || e.need.Match(text[s.start:s.end])) && r.secret(text[s.start:s.end], e.allow)
}

// search matches text[from:], where the keyword begins at text[p]. For a match of unlimited length, it searches 4 KiB
// first, and all the rest only if the match fills these.
func (r *rule) search(match *regexp.Regexp, text []byte, from, p int) []int {
	const most = 4 << 10
	reach := r.Reach + 4
	if r.Reach == 0 {
		reach = most
	}
	to := min(len(text), p+reach)
	loc := match.FindSubmatchIndex(text[from:to])
	if loc != nil && r.Reach == 0 && from+loc[1] == to {
		loc = match.FindSubmatchIndex(text[from:])
	}
	return loc
}

// secretOf returns the first matching group, else the whole match.
func secretOf(loc []int, from int, rule string) span {
	for i := 2; i < len(loc); i += 2 {
		if loc[i] >= 0 {
			return span{from + loc[i], from + loc[i+1], rule}
		}
	}
	return span{from + loc[0], from + loc[1], rule}
}

// secret reports whether a match is a secret.
func (r *rule) secret(text []byte, allow []*regexp.Regexp) bool {
	if r.Entropy > 0 && entropy(text) < r.Entropy {
		return false
	}
	if slices.ContainsFunc(allow, func(e *regexp.Regexp) bool { return e.Match(text) }) {
		return false
	}
	lower := ""
	if len(r.Stop) > 0 {
		lower = strings.ToLower(string(text))
	}
	return !slices.ContainsFunc(r.Stop, func(word string) bool { return strings.Contains(lower, word) })
}

// assigns is a quick test for an assignment: text begins with a name, and an operator comes within 64 bytes.
func assigns(text []byte) bool {
	const most = 64
	for _, c := range text[:min(len(text), most)] {
		switch c {
		case '=', ':', '>', '|', ',', '?':
			return true
		case ' ', '\t', '\n', '\r', '\f', '\v', '\'', '"', '.', '-':
		default:
			if !isWord(c) {
				return false
			}
		}
	}
	return false
}

func isWord(c byte) bool {
	return c-'0' < 10 || c|0x20-'a' < 26 || c == '_'
}

// escaped reports whether text[i] is the letter of an escape such as \n.
func escaped(text []byte, i int) bool {
	return i > 0 && text[i-1] == '\\' && (text[i] == 'n' || text[i] == 'r' || text[i] == 't')
}

// entropy returns the Shannon entropy per byte, in bits.
func entropy(text []byte) (bits float64) {
	var counts [256]int
	for _, c := range text {
		counts[c]++
	}
	for _, n := range counts {
		if n > 0 {
			p := float64(n) / float64(len(text))
			bits -= p * math.Log2(p)
		}
	}
	return bits
}

// custom returns a rule of the operator, without keyword.
func custom(id, regex string) (*rule, error) {
	e, err := regexp.Compile(regex)
	if err != nil {
		return nil, fmt.Errorf("the expression is not one: %w", err)
	}
	if e.MatchString("") {
		return nil, fmt.Errorf("the expression %q matches an empty text, so everything", regex)
	}
	return &rule{ID: id, Regex: regex, compiled: func() expressions { return expressions{match: e} }}, nil
}
