package trust

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
	"github.com/exthost/exthost/internal/supply/consent"
)

// Screen renders what a person reads before answering: for each item what it runs, connects to and asks for, and what
// changed.
func Screen(c *console.Console, items []*Item, details bool) string {
	s := screen{c: c, width: min(max(cmp.Or(console.Width(c.Err), 100), 60), 120)}
	for n, i := range items {
		if n > 0 {
			s.b.WriteByte('\n')
		}
		s.item(i, details)
	}
	return s.b.String()
}

// screen is the text of [Screen] while it is composed.
type screen struct {
	c     *console.Console
	b     strings.Builder
	width int
}

// line writes a paragraph. Without a colour, the paragraph has the terminal's colour.
func (s *screen) line(indent, text string, colour console.Colour) {
	for _, l := range console.Hang(indent+console.Safe(text), s.width) {
		if colour != "" {
			l = s.c.Paint(colour, l)
		}
		s.b.WriteString(l + "\n")
	}
}

func (s *screen) item(i *Item, details bool) {
	s.line("  ", i.title(), console.Bold)
	if i.broken != nil {
		s.line("      ", "cannot be compared: "+i.broken.Error(), console.Red)
		return
	}
	if changes := i.verdict.Changes; len(changes) > 0 && i.verdict.Record.Trusted != nil {
		text := consent.Some(changes)
		if details {
			text = strings.Join(changes, ", ")
		}
		s.line("      ", "changed since "+i.verdict.Record.Trusted.Local().Format("2006-01-02 15:04")+": "+text,
			console.Yellow)
	}
	for _, argv := range i.runs {
		if !details {
			argv = cut(argv)
		}
		s.line("      runs ", argv, "")
	}
	for _, text := range i.asks {
		s.line("      ", text, console.Yellow)
	}
	rules := i.rules
	if more := len(rules) - maxRules; !details && more > 0 {
		rules = append(slices.Clone(rules[:maxRules]),
			fmt.Sprintf("… and %s more, which d shows", console.Plural(more, "line")))
	}
	for _, text := range rules {
		s.line("      ", text, map[byte]console.Colour{'-': console.Red, '+': console.Green}[text[0]])
	}
	for _, text := range i.warns {
		s.line("      ", "warning: "+text, console.Yellow)
	}
	s.counts(i)
	if details {
		s.files(i)
	}
}

// counts writes the skills of a plugin, and how many files are compared.
func (s *screen) counts(i *Item) {
	if len(i.skills) > 0 {
		s.line("      ", "gives models the skills "+strings.Join(i.skills, ", "), "")
	}
	if i.agreed == nil || i.verdict.Files.Count() == 0 {
		return
	}
	of := " of code"
	if i.plugin != "" { // all its files count
		of = ""
	}
	s.line("      ", console.Plural(i.verdict.Files.Count(), "file")+of, console.Dim)
}

// files writes the hashes of the files of code, and the manifests.
func (s *screen) files(i *Item) {
	for _, path := range slices.Sorted(maps.Keys(i.verdict.Files)) {
		s.line("        ", fmt.Sprintf("%.12s  %s", i.verdict.Files[path].Sum, path), console.Dim)
	}
	for _, path := range i.paths {
		if text, err := console.ReadFile(path, maxManifest, ""); err == nil {
			s.line("      ", console.NearbyPath(path)+":", console.Bold)
			s.b.WriteString(console.SafeText(strings.TrimRight(string(text), "\n")) + "\n")
		}
	}
}

const (
	maxArgv     = 1000    // of a command line, in characters, without details
	maxRules    = 40      // lines about rules, without details
	maxManifest = 1 << 20 // bytes of a manifest that details show
)

// cut shortens a command line, and says by how much.
func cut(argv string) string {
	characters := []rune(argv)
	if more := len(characters) - maxArgv; more > 0 {
		return fmt.Sprintf("%s … and %d characters more", string(characters[:maxArgv]), more)
	}
	return argv
}

func (i *Item) title() string {
	if i.agreed == nil {
		return "configuration: " + i.place
	}
	if i.plugin != "" {
		servers := slices.DeleteFunc(slices.Clone(i.Names), func(name string) bool { return name == i.plugin })
		return strings.TrimSuffix("plugin "+i.plugin+" ("+strings.Join(servers, ", ")+")", " ()") + ": " + i.place
	}
	return strings.Join(i.Names, ", ") + ": " + i.place
}

// heading introduces the items.
func heading(items []*Item) string {
	here, again := hosts.Here(), false
	for _, i := range items {
		again = again || i.verdict != nil && len(i.verdict.Changes) > 0
	}
	if again {
		return here + " has changed. This would run as you, with your files and your network:"
	}
	return here + " holds programs that have not run yet. They would run as you, with your files and your network:"
}

// Ask shows the items on the terminal and reads one key.
func Ask(ctx context.Context, c *console.Console, items []*Item) (yes bool, err error) {
	for _, l := range console.Wrap(console.Safe(heading(items)), cmp.Or(console.Width(c.Err), 80)) {
		fmt.Fprintln(c.Err, l)
	}
	fmt.Fprintln(c.Err)
	fmt.Fprintln(c.Err, Screen(c, items, false))
	for {
		key, err := c.ReadKey(ctx, c.Paint(console.Bold, "Run this? ")+"y yes, n no, d details: ")
		if errors.Is(err, console.ErrNoAnswer) {
			return false, &console.Error{
				Code: console.ExitDenied,
				Text: "no answer; nothing was started",
				Hint: "exthost trust",
			}
		}
		if err != nil {
			return false, err
		}
		switch key {
		case 'y', 'Y':
			fmt.Fprintln(c.Err, "yes")
			return true, nil
		case 'n', 'N', 'q', console.Escape:
			fmt.Fprintln(c.Err, "no")
			return false, nil
		case 'd', 'D':
			fmt.Fprint(c.Err, "details\n\n", Screen(c, items, true), "\n")
		default:
			fmt.Fprintln(c.Err)
		}
	}
}

// Agree shows the items and asks the user, or with yes only shows them. refused is the error for any answer but yes,
// unasked the error without a terminal.
func Agree(ctx context.Context, c *console.Console, items []*Item, yes bool, refused, unasked *console.Error) error {
	switch {
	case yes:
		fmt.Fprint(c.Err, Screen(c, items, false))
		return nil
	case !c.Interactive():
		fmt.Fprint(c.Out, Screen(c, items, false))
		return unasked
	}
	ok, err := Ask(ctx, c, items)
	if err == nil && !ok {
		return refused
	}
	return err
}
