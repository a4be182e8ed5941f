package redact

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/exthost/exthost/internal/text"
)

// Options select what a [Detector] finds. The zero value selects secrets, e-mail addresses and card numbers.
type Options struct {
	// Rules enables and disables rules by name, see [RuleNames].
	Rules map[string]bool
	// Patterns are additional RE2 expressions by name. The first matching group is masked, or the whole match
	// without groups.
	Patterns map[string]string
	// Allow are RE2 expressions for texts that are not masked; an expression must match the whole text.
	Allow []string
}

// Detector finds secrets by their form, whereas a [Redactor] knows their values. Its methods are safe for
// concurrent use.
type Detector struct {
	keywords *automaton
	patterns []*rule // the operator's rules, which have no keywords
	cards    bool
	allow    []*regexp.Regexp
}

// Default returns the detector of the zero Options.
var Default = sync.OnceValue(func() *Detector {
	d, err := NewDetector(Options{})
	if err != nil {
		panic(err) // a test covers it
	}
	return d
})

var secretsAlone = sync.OnceValue(func() *Detector {
	d, err := NewDetector(Options{Rules: map[string]bool{"email": false, "card": false}})
	if err != nil {
		panic(err) // a test covers it
	}
	return d
})

// HoldsSecret reports whether a part of text has the form of a secret. E-mail addresses and card numbers do not count.
func HoldsSecret(text string) bool {
	w := search{Detector: secretsAlone(), ctx: context.Background(), hides: true}
	return len(w.spans([]byte(text))) > 0
}

// RuleNames returns the valid keys of Options.Rules, sorted.
func RuleNames() []string { return slices.Sorted(maps.Keys(rulesByID())) }

var ruleName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`)

// NewDetector compiles the options. Its errors name the invalid one.
func NewDetector(o Options) (*Detector, error) {
	d := &Detector{}
	if err := d.enable(o.Rules); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(o.Patterns)) {
		if !ruleName.MatchString(name) || rulesByID()[name] != nil {
			return nil, fmt.Errorf("patterns: %q cannot name a pattern: small letters, digits, - and _, and no "+
				"rule's name", name)
		}
		r, err := custom(name, o.Patterns[name])
		if err != nil {
			return nil, fmt.Errorf("patterns: %s: %w", name, err)
		}
		d.patterns = append(d.patterns, r)
	}
	for _, expr := range o.Allow {
		e, err := regexp.Compile(`\A(?:` + expr + `)\z`)
		if err != nil {
			return nil, fmt.Errorf("allow: %w", err)
		}
		d.allow = append(d.allow, e)
	}
	return d, nil
}

// enable selects the built-in rules: those that stated enables, and those that are on by default.
func (d *Detector) enable(stated map[string]bool) error {
	rules := rulesByID()
	for _, name := range slices.Sorted(maps.Keys(stated)) {
		if rules[name] == nil {
			hint := "there are " + strings.Join(RuleNames(), ", ")
			if near := text.Nearest(name, RuleNames()); near != "" {
				hint = fmt.Sprintf("did you mean %q?", near)
			}
			return fmt.Errorf("rules: there is no rule %q: %s", name, hint)
		}
	}
	var on []*rule
	for _, name := range RuleNames() {
		r := rules[name]
		want, ok := stated[name]
		switch {
		case ok && !want || !ok && r.Off:
		case r.Keywords == nil:
			d.cards = true
		default:
			on = append(on, r)
		}
	}
	d.keywords = newAutomaton(on)
	return nil
}

// Findings counts findings by rule. It never contains a secret.
type Findings map[string]int

// String lists the rules by name, such as "github-pat (2), jwt".
func (f Findings) String() string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(f)) {
		if n := f[name]; n > 1 {
			name = fmt.Sprintf("%s (%d)", name, n)
		}
		list = append(list, name)
	}
	return strings.Join(list, ", ")
}

// span is a part of a text to mask.
type span struct {
	start, end int
	rule       string
}

// masks matches masked parts, which have no character that JSON escapes.
var masks = regexp.MustCompile(`\[redacted:[a-z0-9_-]{1,64}\]`)

// maxRounds bounds the passes over one text: masking may uncover further secrets.
const maxRounds = 16

// Text replaces every finding in text by [redacted:rule].
func (d *Detector) Text(text string) (string, Findings) {
	w := search{Detector: d, ctx: context.Background()}
	out, found, _ := w.maskAll([]byte(text), w.spans)
	if found == nil {
		return text, nil
	}
	return string(out), found
}

// search is one use of a detector. It stops when ctx ends.
type search struct {
	*Detector
	ctx    context.Context
	hits   int  // keywords found so far
	within bool // inside of base64 text; nested base64 is not decoded
	hides  bool // the text may have hidden characters
}

// canceled checks ctx at every 64th call: a hostile text can take seconds per MiB.
func (w *search) canceled() bool {
	w.hits++
	return w.hits%64 == 0 && w.ctx.Err() != nil
}

// maskAll masks the spans that find returns, again and again until find returns none.
func (w *search) maskAll(text []byte, find func([]byte) []span) ([]byte, Findings, error) {
	var found Findings
	w.hides = mayHide(text)
	for range maxRounds {
		spans := find(text)
		if err := w.ctx.Err(); err != nil {
			return nil, nil, err
		}
		if len(spans) == 0 {
			break
		}
		if found == nil {
			found = make(Findings)
		}
		text = replace(text, spans, found)
	}
	return text, found, nil
}

// replace masks the spans, which must be sorted and disjoint.
func replace(text []byte, spans []span, found Findings) []byte {
	out := make([]byte, 0, len(text)+32*len(spans))
	at := 0
	for _, s := range spans {
		out = append(out, text[at:s.start]...)
		out = append(append(append(out, "[redacted:"...), s.rule...), ']')
		at = s.end
		found[s.rule]++
	}
	return append(out, text[at:]...)
}

// spans returns the spans to mask, sorted and disjoint.
func (w *search) spans(text []byte) []span {
	list := w.plainSpans(text)
	if w.hides {
		list = w.hiddenSpans(list, text)
	}
	if len(text) >= minRun && !w.within {
		list = w.encodedSpans(list, text)
	}
	if len(list) == 0 {
		return nil
	}
	return merge(w.filter(text, list))
}

// plainSpans returns the spans of unencoded secrets in text.
func (w *search) plainSpans(text []byte) []span {
	list := w.keywordSpans(text)
	if w.cards {
		list = appendCards(list, text)
	}
	for _, r := range w.patterns {
		for _, loc := range r.compiled().match.FindAllSubmatchIndex(text, -1) {
			list = append(list, secretOf(loc, 0, r.ID))
		}
	}
	return list
}

// keywordSpans returns the spans of the rules with keywords.
func (w *search) keywordSpans(text []byte) (list []span) {
	a := w.keywords
	last, done := (*rule)(nil), 0 // the last match and its end; keywords within the match belong to it
	for i, state := a.scan(text, 0, 0); state > 0; i, state = a.scan(text, i, state) {
		for _, k := range a.found[state/a.width] {
			at := i - k.size
			if k.rule == last && at < done {
				continue
			}
			if w.canceled() {
				return nil
			}
			if s, ok := k.rule.at(text, at); ok {
				last, done = k.rule, s.end
				list = append(list, s)
			}
		}
	}
	return list
}

// filter drops spans that are empty, already masked or allowed.
func (d *Detector) filter(text []byte, list []span) []span {
	masked := masks.FindAllIndex(text, -1)
	return slices.DeleteFunc(list, func(s span) bool {
		i, _ := slices.BinarySearchFunc(masked, s.end, func(m []int, end int) int { return cmp.Compare(m[1], end) })
		if i < len(masked) && s.start >= masked[i][0] {
			return true
		}
		return s.start == s.end ||
			slices.ContainsFunc(d.allow, func(e *regexp.Regexp) bool { return e.Match(text[s.start:s.end]) })
	})
}

// merge sorts spans and joins overlapping ones, keeping the rule of the first.
func merge(list []span) []span {
	slices.SortStableFunc(list, func(a, b span) int {
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(b.end, a.end))
	})
	if len(list) == 0 {
		return nil
	}
	out := list[:1]
	for _, s := range list[1:] {
		if last := &out[len(out)-1]; s.start < last.end {
			last.end = max(last.end, s.end)
		} else {
			out = append(out, s)
		}
	}
	return out
}
