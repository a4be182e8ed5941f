package trust

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// Desk is where a person answers for a running host: it shows what waits to be trusted in the working directory,
// records the answers, and has the configuration changed. It reads the files for each request, with the command line of
// the host.
type Desk struct {
	Console *console.Console
	Flags   []config.Flag
}

// Untrusted returns what waits for an answer.
func (d Desk) Untrusted(ctx context.Context) ([]status.Untrusted, error) {
	p, err := d.pending(ctx)
	if err != nil {
		return nil, err
	}
	var list []status.Untrusted
	for _, i := range p.Items {
		list = append(list, i.shown())
	}
	return list, nil
}

// Agree records a yes to the item that [Desk.Untrusted] has shown with this digest.
func (d Desk) Agree(ctx context.Context, digest string) error {
	p, err := d.pending(ctx)
	if err != nil {
		return err
	}
	for _, i := range p.Items {
		if i.shown().Digest == digest {
			return p.Accept([]*Item{i})
		}
	}
	return protocol.Errorf(protocol.DescriptorChanged,
		"nothing that waits to be trusted is as it was shown; look at it again")
}

// LoadOptions returns how the configuration of the host is read.
func (d Desk) LoadOptions() config.LoadOptions { return hosts.LoadOptions(d.Console, d.Flags...) }

// Edit calls edit, which changes the files of the configuration. A configuration that was trusted stays trusted, since
// a person made the change. All hosts of the user then read their clients again; missed says which of them did not.
func (d Desk) Edit(ctx context.Context, edit func() error) (missed []string, err error) {
	trusted := hosts.ConfigurationTrusted(d.Console)
	if err := edit(); err != nil {
		return nil, err
	}
	if trusted {
		if err := hosts.TrustConfiguration(d.Console); err != nil {
			return nil, err
		}
	}
	_, missed, err = hosts.ReloadClients(ctx)
	if err != nil {
		missed = append(missed, err.Error())
	}
	return missed, nil
}

func (d Desk) pending(ctx context.Context) (*Pending, error) {
	cfg, origins, err := hosts.LoadQuietly(d.Console, d.Flags...)
	if err != nil {
		return nil, err
	}
	if cfg.Extensions.Trust == config.TrustLock {
		return nil, protocol.Errorf(protocol.ConfigInvalid,
			"exthost.lock decides what runs here: exthost trust --lock shows it and changes the lock file")
	}
	return Find(ctx, d.Console, cfg, origins)
}

// shown returns what the operator's API shows of an item.
func (i *Item) shown() status.Untrusted {
	u := status.Untrusted{
		Names:    i.Names,
		Place:    i.place,
		Runs:     console.OrEmpty(i.runs),
		Asks:     console.OrEmpty(i.asks),
		Rules:    i.rules,
		Warnings: i.warns,
	}
	if i.broken != nil {
		u.Reason = "cannot be compared: " + i.broken.Error()
	}
	files := ""
	if i.verdict != nil {
		files, u.Files = i.Digest(), i.verdict.Files.Count()
		if i.verdict.Record.Trusted != nil {
			u.Changes = i.verdict.Changes
		}
	}
	text, _ := json.Marshal([]any{u, files, i.secrets}) // always encodes
	u.Digest = fmt.Sprintf("sha256:%x", sha256.Sum256(text))
	return u
}
