package clients

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/secret/clienttoken"
)

func directory(t *testing.T, reread func() (*config.Config, error)) *Directory {
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	return New(ctx, reread, func() {}, slog.New(slog.DiscardHandler))
}

// An earlier reading of the configuration does not bring back a removed client.
func TestClientReadEarlier(t *testing.T) {
	token := clienttoken.New()
	with := map[string]config.Client{"ada": {TokenHash: clienttoken.Hash(token)}}
	d := directory(t, nil)
	d.Set(with)
	_, until, ok := d.ByToken(token)
	if !ok || until.Err() != nil {
		t.Fatal("the client is unknown")
	}
	early, late := d.begin(), d.begin()
	d.set(late, nil) // ada is removed before the earlier reading ends
	d.set(early, with)
	if _, _, ok := d.ByToken(token); ok || until.Err() == nil || d.Named("ada") {
		t.Error("a client that was removed is back")
	}
	if _, ok := d.Unnamed(); ok {
		t.Error("after the last client everybody is let in")
	}
}

// A reload that fails changes nothing.
func TestClientReloadFails(t *testing.T) {
	d := directory(t, func() (*config.Config, error) { return nil, errors.New("broken") })
	d.Set(map[string]config.Client{"ada": {}})
	if err := d.Reload(); err == nil || !d.Named("ada") {
		t.Errorf("%v, %v", err, d.Names())
	}
}

// An old token ends in time, even if that time was changed.
func TestClientOldTokenEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := directory(t, nil)
		old, token := clienttoken.New(), clienttoken.New()
		d.Set(map[string]config.Client{"ada": {TokenHash: clienttoken.Hash(old)}})
		_, until, _ := d.ByToken(old)
		keep := func(span time.Duration) {
			d.Set(map[string]config.Client{
				"ada": {
					TokenHash:    clienttoken.Hash(token),
					OldTokenHash: clienttoken.Hash(old),
					OldUntil:     time.Now().Add(span).Format(time.RFC3339),
				},
			})
		}
		keep(time.Minute)
		keep(time.Hour)
		time.Sleep(time.Hour - time.Second)
		if _, _, ok := d.ByToken(old); !ok || until.Err() != nil {
			t.Error("it ended early")
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if _, _, ok := d.ByToken(old); ok || until.Err() == nil {
			t.Error("it did not end")
		}
		keep(-time.Hour)
		if name, now, ok := d.ByToken(token); name != "ada" || !ok || now.Err() != nil {
			t.Error("the new token is unknown")
		}
	})
}

// TestClientsUnderLoad looks up clients while they come and go.
func TestClientsUnderLoad(t *testing.T) {
	d, tokens := directory(t, nil), make([]string, 8)
	for i := range tokens {
		tokens[i] = clienttoken.New()
	}
	stays := clienttoken.New()
	var wg sync.WaitGroup
	for i := range tokens {
		wg.Go(func() {
			for n := range 200 {
				stated := map[string]config.Client{"stays": {TokenHash: clienttoken.Hash(stays)}}
				for j := range tokens {
					if (n>>j)&1 == i&1 {
						stated[fmt.Sprintf("c%d", j)] = config.Client{TokenHash: clienttoken.Hash(tokens[j])}
					}
				}
				d.Set(stated)
				if name, until, ok := d.ByToken(stays); name != "stays" || !ok || until.Err() != nil {
					t.Error("a client that stays is disturbed")
				}
				if name, _, ok := d.ByToken(tokens[i]); ok && name != fmt.Sprintf("c%d", i) {
					t.Errorf("the token of c%d is that of %s", i, name)
				}
			}
		})
	}
	wg.Wait()
	d.Set(nil)
	if names := d.Names(); len(names) > 0 ||
		!slices.Equal(d.Changed(map[string]config.Client{"a": {}}), []string{"a"}) {
		t.Error(names)
	}
}

// Beyond the bound, the subject not seen for longest ends.
func TestSubjectsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := directory(t, nil)
		name := func(n int) string { return fmt.Sprintf("s%d", n) }
		until := make([]context.Context, maxSubjects+1)
		for n := range maxSubjects {
			until[n], _ = d.Subject(name(n))
			time.Sleep(time.Millisecond)
		}
		if again, ok := d.Subject(name(0)); !ok || again != until[0] {
			t.Error("a subject is not the same the second time")
		}
		time.Sleep(time.Millisecond)
		until[maxSubjects], _ = d.Subject(name(maxSubjects))
		for n, ctx := range until {
			if ended := ctx.Err() != nil; ended != (n == 1) {
				t.Errorf("subject %d has ended: %v", n, ended)
			}
		}
		d.Set(map[string]config.Client{name(2): {}})
		if _, ok := d.Subject(name(2)); ok || until[2].Err() == nil || until[3].Err() != nil {
			t.Error("a subject goes on beside the client of its name")
		}
	})
}
