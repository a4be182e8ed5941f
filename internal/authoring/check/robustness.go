package check

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/authoring/rawclient"
	"github.com/exthost/exthost/internal/wire/jsonrpc"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
)

func (s *subject) probeNotifications(ctx context.Context, c *rawclient.Client) error {
	for _, line := range []string{
		`{"jsonrpc":"2.0","method":"notifications/exthost_check_unheard_of","params":{}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":987654321,"reason":"check"}}`,
		`{"jsonrpc":"2.0","id":987654321,"result":{}}`,
	} {
		if err := c.Write(line); err != nil {
			return err
		}
	}
	if err := responds(ctx, c); err != nil {
		return err
	}
	if texts := c.TakeUnsolicited(); len(texts) > 0 { // reported here, so not by probeStdout
		return fmt.Errorf("it answers what is no request: %s", strings.Join(texts, "\n"))
	}
	return nil
}

// responds sends a harmless request and waits for any answer.
func responds(ctx context.Context, c *rawclient.Client) error {
	_, err := c.Ask(ctx, unknownMethod, "{}")
	return err
}

func (s *subject) probeExtraMembers(ctx context.Context, c *rawclient.Client) error {
	id := c.NewID()
	answer := c.Expect(id)
	line := c.Request(id, protocol.MethodToolsList,
		`{"_meta":{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01","exthost/check":[1]}}`)
	if err := c.Write(strings.TrimSuffix(line, "}") + `,"exthost_check":{"later":true}}`); err != nil {
		return err
	}
	m, err := c.Await(ctx, answer, "a request with a member that it cannot know")
	if err != nil {
		return err
	}
	if e := rawclient.Error(m); e != nil && e.Code != jsonrpc.CodeMethodNotFound {
		return fmt.Errorf("a request with a member that it cannot know is refused: %s (%d)", e.Message, e.Code)
	}
	return nil
}

func (s *subject) probePieces(ctx context.Context, c *rawclient.Client) error {
	first, second := c.NewID(), c.NewID()
	one, two := c.Expect(first), c.Expect(second)
	text := c.Request(first, unknownMethod, `{"é":"☃😀"}`) + "\n" + c.Request(second, unknownMethod, "{}") + "\n"
	if s.protocol == manifest.ProtocolLite { // lite handles one request at a time
		text, two = c.Request(first, unknownMethod, `{"é":"☃😀"}`)+"\n", nil
	}
	middle := strings.Index(text, "☃") + 1 // within a character
	for _, piece := range []string{text[:middle], text[middle : middle+3], text[middle+3:]} {
		if err := c.WriteRaw(piece); err != nil {
			return err
		}
	}
	if _, err := c.Await(ctx, one, "a request in pieces"); err != nil || two == nil {
		return err
	}
	_, err := c.Await(ctx, two, "the second of two requests in one piece")
	return err
}

func (*subject) probeLarge(ctx context.Context, c *rawclient.Client) error {
	params := `{"exthost_check":"` + strings.Repeat("x", 1<<20) + `"}`
	_, err := c.Ask(ctx, unknownMethod, params)
	return err
}

// concurrent is the number of simultaneous requests.
const concurrent = 50

func (s *subject) probeConcurrency(ctx context.Context, c *rawclient.Client) error {
	call, sampleErr := s.sample()
	var text strings.Builder
	answers := make(map[string]<-chan jsonrpc.Message)
	for i := range concurrent {
		id := c.NewID()
		answers[id] = c.Expect(id)
		if sampleErr == nil && i%2 == 0 {
			text.WriteString(c.CallRequest(id, call.Tool, call.Arguments, "") + "\n")
		} else {
			text.WriteString(c.Request(id, unknownMethod, "{}") + "\n")
		}
	}
	if err := c.WriteRaw(text.String()); err != nil {
		return err
	}
	for _, id := range slices.Sorted(maps.Keys(answers)) {
		if _, err := c.Await(ctx, answers[id], "one of "+fmt.Sprint(concurrent)+" requests at once"); err != nil {
			return err
		}
	}
	if sampleErr != nil {
		return passf("with no call among them, since nothing may be called")
	}
	return nil
}

func (s *subject) probeAlive(ctx context.Context) error {
	if s.shared == nil || s.shared.Dead() {
		return errors.New("the child that was asked all this has ended meanwhile")
	}
	return responds(ctx, s.shared)
}
