package quota

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/exthost/exthost/governance/quota"
)

// Bucket returns the name of a cluster's key-value bucket.
func Bucket(cluster string) string { return "exthost_" + cluster + "_quota" }

// The subjects of the JetStream API for the bucket.
func stream(cluster string) string  { return "KV_" + Bucket(cluster) }
func keys(cluster string) string    { return "$KV." + Bucket(cluster) + "." }
func infoOf(cluster string) string  { return "$JS.API.STREAM.INFO." + stream(cluster) }
func lastMsg(cluster string) string { return "$JS.API.STREAM.MSG.GET." + stream(cluster) }

// Publish returns the subjects that a node needs to publish to. Answers arrive at an inbox below the node's
// own subject, see link.Link.Ask.
func Publish(cluster string) []string {
	return []string{keys(cluster) + "*", infoOf(cluster), lastMsg(cluster)}
}

// Operation returns the token that stands for a subject, which must be one of [Publish].
func Operation(cluster, subject string) string {
	switch subject {
	case infoOf(cluster):
		return opInfo
	case lastMsg(cluster):
		return opGet
	}
	key, _ := strings.CutPrefix(subject, keys(cluster))
	return key
}

// Subject returns the subject for which a token of [Operation] stands, or "" for another token.
func Subject(cluster, operation string) string {
	switch {
	case operation == opInfo:
		return infoOf(cluster)
	case operation == opGet:
		return lastMsg(cluster)
	case isToken(operation):
		return keys(cluster) + operation
	}
	return ""
}

const (
	opInfo = "info"
	opGet  = "get"
)

// Headers are the only headers that requests need.
var Headers = []string{headerLast, headerTTL}

const (
	headerLast = "Nats-Expected-Last-Subject-Sequence"
	headerTTL  = "Nats-TTL"
)

// The limits of the bucket.
const (
	MaxBytes  = 64 << 20 // of all counters; a full bucket refuses leases
	maxRecord = 64 << 10
)

// Config is the configuration of a JetStream stream.
type Config struct {
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Subjects    []string `json:"subjects"`
	Retention   string   `json:"retention"`
	Discard     string   `json:"discard"`
	Storage     string   `json:"storage"`
	Replicas    int      `json:"num_replicas"`
	History     int64    `json:"max_msgs_per_subject"`
	MaxBytes    int64    `json:"max_bytes"`
	MaxAge      int64    `json:"max_age"` // nanoseconds
	MaxSize     int32    `json:"max_msg_size"`
	MaxConsumer int      `json:"max_consumers"`
	DenyDelete  bool     `json:"deny_delete"`
	DenyPurge   bool     `json:"deny_purge"`
	TTL         bool     `json:"allow_msg_ttl"`
}

// Stream returns the configuration of the stream that stores the bucket.
func Stream(cluster string, replicas int) Config {
	return Config{
		Name:        stream(cluster),
		Description: "what the nodes of the cluster have leased of their shared limits",
		Subjects:    []string{keys(cluster) + ">"},
		Retention:   "limits",
		Discard:     "new",
		Storage:     "file",
		Replicas:    replicas,
		History:     1,
		MaxBytes:    MaxBytes,
		MaxSize:     maxRecord,
		MaxConsumer: 1,
		DenyDelete:  true,
		DenyPurge:   true,
		TTL:         true,
	}
}

// Asker sends requests to the servers of a cluster. It fails at once if there is no responder.
type Asker interface {
	Ask(ctx context.Context, subject string, header map[string]string, data []byte) ([]byte, error)
}

// bucket reads and writes the bucket of a cluster.
type bucket struct {
	cluster string
	asker   Asker
}

// apiError is an error of JetStream.
type apiError struct {
	Code int    `json:"err_code"`
	Text string `json:"description"`
}

func (e *apiError) Error() string { return fmt.Sprintf("%s (%d)", e.Text, e.Code) }

// The JetStream error codes that are treated specially.
const (
	codeNoMessage    = 10037
	codeNoStream     = 10059
	codeNoJetStream  = 10039
	codeWrongLast    = 10071
	codeWrongLastNow = 10164
)

// errChanged reports that another node has changed the record.
var errChanged = errors.New("another node has changed it")

// ask sends a request and decodes the answer.
func (b *bucket) ask(ctx context.Context, subject string, header map[string]string, request []byte, answer any) error {
	data, err := b.asker.Ask(ctx, subject, header, request)
	if err != nil {
		return err
	}
	var failed struct {
		Error *apiError `json:"error"`
	}
	if err := json.Unmarshal(data, &failed); err != nil {
		return fmt.Errorf("the servers answer with %.80q: %w", data, err)
	}
	if failed.Error != nil {
		return fmt.Errorf("the servers say of the bucket %s: %w", Bucket(b.cluster), failed.Error)
	}
	if err := json.Unmarshal(data, answer); err != nil {
		return fmt.Errorf("the servers answer with %.80q: %w", data, err)
	}
	return nil
}

// look returns the time of the servers. It fails if the bucket is missing or wrongly configured.
func (b *bucket) look(ctx context.Context) (now time.Time, err error) {
	var info struct {
		Now    time.Time `json:"ts"`
		Config Config    `json:"config"`
	}
	if err := b.ask(ctx, infoOf(b.cluster), nil, nil, &info); err != nil {
		if e, ok := errors.AsType[*apiError](err); ok && (e.Code == codeNoStream || e.Code == codeNoJetStream) {
			return now, fmt.Errorf("the servers have no bucket %s: a hub makes it with its next start; for NATS "+
				"servers of your own, exthost cluster permissions prints the command: %w", Bucket(b.cluster), e)
		}
		return now, err
	}
	c := info.Config
	if !c.TTL || c.History != 1 || c.Discard != "new" || c.MaxAge != 0 || c.Storage != "file" {
		return now, fmt.Errorf("the bucket %s is not one for counters: it must keep one value of a key, at any age "+
			"and in files, know a TTL of keys, and refuse what is too much; exthost cluster permissions prints the "+
			"command that makes one", Bucket(b.cluster))
	}
	if info.Now.IsZero() {
		return now, errors.New("the servers do not tell their time: they are older than NATS 2.11")
	}
	return info.Now, nil
}

// get returns the record of a key and its revision, or nil if there is no record.
func (b *bucket) get(ctx context.Context, key string) (*record, uint64, error) {
	request, err := json.Marshal(map[string]string{"last_by_subj": keys(b.cluster) + key})
	if err != nil {
		return nil, 0, err
	}
	var found struct {
		Message struct {
			Revision uint64 `json:"seq"`
			Data     []byte `json:"data"`
		} `json:"message"`
	}
	err = b.ask(ctx, lastMsg(b.cluster), nil, request, &found)
	if e, ok := errors.AsType[*apiError](err); ok && e.Code == codeNoMessage {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	m := &found.Message
	if len(m.Data) == 0 { // an expired key leaves an empty message
		return nil, m.Revision, nil
	}
	r := new(record)
	if err := json.Unmarshal(m.Data, r); err != nil || !r.sound() {
		return nil, 0, &quota.CounterError{
			Err: fmt.Errorf("what the bucket %s has of %s is no counter; nats kv del %[1]s %[2]s removes it",
				Bucket(b.cluster), key),
		}
	}
	return r, m.Revision, nil
}

// put stores r if the key still has the revision, else it returns errChanged. After other errors r may be
// stored.
func (b *bucket) put(ctx context.Context, key string, r *record, revision uint64, ttl time.Duration) error {
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	header := map[string]string{
		headerLast: strconv.FormatUint(revision, 10),
		headerTTL:  strconv.FormatInt(int64(math.Ceil(ttl.Seconds())), 10),
	}
	var stored struct {
		Revision uint64 `json:"seq"`
	}
	err = b.ask(ctx, keys(b.cluster)+key, header, data, &stored)
	if e, ok := errors.AsType[*apiError](err); ok && (e.Code == codeWrongLast || e.Code == codeWrongLastNow) {
		return errChanged
	}
	return err
}
