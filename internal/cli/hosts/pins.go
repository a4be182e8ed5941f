package hosts

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/text"
	"github.com/exthost/exthost/status"
)

// Pinned holds the pins of a host, and what waits to be accepted.
type Pinned struct {
	List []status.Pin

	running *Running
	own     *exthost.Host // a host that starts nothing; nil if one is running
	dir     string        // of the lock file
}

// OpenPins asks the running host or, if none runs, a host that starts nothing. The caller must close the result.
func OpenPins(ctx context.Context, c *console.Console) (*Pinned, error) {
	r, cfg, err := Reach(ctx, c)
	if r != nil {
		var answer struct{ Pins []status.Pin }
		if err := r.Get(ctx, "/api/v1/pins", &answer); err != nil {
			return nil, err
		}
		return &Pinned{List: answer.Pins, running: r, dir: cfg.Project.Dir}, nil
	}
	if err != nil {
		return nil, err
	}
	h, err := Look(ctx, c, cfg)
	if err != nil {
		return nil, err
	}
	return &Pinned{List: h.Admin().Pins(), own: h, dir: cfg.Project.Dir}, nil
}

// Close closes the host that OpenPins opened.
func (p *Pinned) Close() error {
	if p.own == nil {
		return nil
	}
	return p.own.Close()
}

// Waiting returns the pins of an extension that wait to be accepted, limited to label if that is given.
func (p *Pinned) Waiting(extension, label string) []status.Pin {
	return waiting(p.List, extension, label)
}

func waiting(all []status.Pin, extension, label string) (list []status.Pin) {
	s := status.Selection{Extension: extension, Label: label}
	for _, pin := range all {
		if s.Names(&pin) {
			list = append(list, pin)
		}
	}
	return list
}

// Accept accepts the pins as they were shown. If shown is empty, it returns an error that says why there is nothing to
// accept. Tools that differ from exthost.lock are updated there.
func (p *Pinned) Accept(ctx context.Context, extension, label string, shown []status.Pin) error {
	if err := p.accept(ctx, extension, label, shown); err != nil {
		return err
	}
	return lockTools(p.dir, shown)
}

func (p *Pinned) accept(ctx context.Context, extension, label string, shown []status.Pin) error {
	var digests []string
	for _, pin := range shown {
		digests = append(digests, pin.Digest)
	}
	if p.own != nil {
		return p.own.Admin().AcceptTools(status.Selection{Extension: extension, Label: label, Digests: digests},
			Operator())
	}
	path := "/api/v1/pins/" + url.PathEscape(extension)
	if label != "" {
		path += "/" + url.PathEscape(label)
	}
	body, _ := json.Marshal(map[string][]string{"digests": digests}) // strings always encode
	return p.running.Post(ctx, path+"/approve", body, nil)
}

// DigestOf returns a digest of 128 bits over the list, for a person to pass on.
func DigestOf(list []status.Pin) string {
	var digests []string
	for _, pin := range list {
		digests = append(digests, pin.Label+"\x00"+pin.Digest)
	}
	slices.Sort(digests)
	sum := sha256.Sum256([]byte(strings.Join(digests, "\x00")))
	return hex.EncodeToString(sum[:16])
}

// PinsText renders the pins with their differences.
func PinsText(list []status.Pin) string {
	var lines []string
	for _, p := range list {
		line := p.Extension + " " + p.Label + ":"
		switch {
		case p.Policy != "" && p.New:
			line += " new since the others were pinned"
		case p.Policy != "":
			line += " pinned " + p.Since.Local().Format("2006-01-02 15:04")
		case p.Held && p.Unlocked != "":
			line += " is not as exthost.lock states it"
		case p.Held:
			line += " has text that no reader sees"
		default:
			line += " changed since it was accepted"
		}
		if p.ApprovedBy != "" {
			line += ", approved by " + p.ApprovedBy
		}
		switch {
		case p.Held && p.HeldSince.IsZero():
			line += ", held back"
		case p.Held:
			line += ", held back since " + p.HeldSince.Local().Format("2006-01-02 15:04")
		}
		lines = append(lines, console.Safe(line))
		for diff := range strings.Lines(p.Diff) {
			lines = append(lines, "  "+console.Safe(strings.TrimSuffix(diff, "\n")))
		}
		if p.Digest != "" {
			next := []string{
				"exthost",
				"tools",
				"accept",
				p.Extension,
				p.Label,
				"--expect",
				DigestOf(waiting(list, p.Extension, p.Label)),
			}
			lines = append(lines, "  next: "+console.Safe(text.ShellLine(next)))
		}
	}
	return strings.Join(lines, "\n")
}
