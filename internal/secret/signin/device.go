package signin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"github.com/exthost/exthost/internal/secret/logins"
)

const deviceGrant = "urn:ietf:params:oauth:grant-type:device_code"

// Device lets the user approve on another device (RFC 8628).
type Device struct {
	// Show tells the user the address to open and the code to enter.
	Show func(address, code string)
}

func (*Device) redirect() string { return "" }

func (d *Device) approve(ctx context.Context, f *found, config *oauth2.Config) (*oauth2.Token, error) {
	resource := oauth2.SetAuthURLParam("resource", f.resource)
	if config.Endpoint.DeviceAuthURL == "" {
		return nil, errors.New("the authorization server has no login for other devices " +
			"(device_authorization_endpoint); leave out --device, or use --paste")
	}
	r, err := begin(ctx, config, f.resource)
	if err != nil {
		return nil, fmt.Errorf("the authorization server begins no login: %w", err)
	}
	address := r.VerificationURIComplete
	if secure(address) != nil {
		address = r.VerificationURI
	}
	if err := secure(address); err != nil {
		return nil, fmt.Errorf("the address to open, %s, is refused: %w", shown(address), err)
	}
	d.Show(address, short(r.UserCode))
	token, err := config.DeviceAccessToken(ctx, r, resource)
	switch e, _ := errors.AsType[*oauth2.RetrieveError](err); {
	case err == nil:
		return token, nil
	case e != nil && e.ErrorCode == "access_denied":
		return nil, errors.New("the login was refused " + logins.Said(e, r.DeviceCode, config.ClientSecret))
	case e != nil && e.ErrorCode == "expired_token", errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		return nil, errors.New("the code has expired before the login was approved; try again")
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	return nil, fmt.Errorf("the login was not approved: %w", exchangeError(err, r.DeviceCode, config.ClientSecret))
}

// Limits in seconds.
const (
	defaultInterval = 5 // polling interval (RFC 8628)
	maxInterval     = 60
	maxLife         = 60 * 60 // lifetime of a code
)

// begin requests a device code. oauth2.DeviceAuth is not used, because it panics on null and on a negative
// interval.
func begin(ctx context.Context, config *oauth2.Config, resource string) (*oauth2.DeviceAuthResponse, error) {
	form := url.Values{"client_id": {config.ClientID}, "resource": {resource}}
	if len(config.Scopes) > 0 {
		form.Set("scope", strings.Join(config.Scopes, " "))
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, config.Endpoint.DeviceAuthURL,
		strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Accept", "application/json")
	if config.Endpoint.AuthStyle == oauth2.AuthStyleInHeader {
		r.SetBasicAuth(url.QueryEscape(config.ClientID), url.QueryEscape(config.ClientSecret))
	}
	resp, err := ctx.Value(oauth2.HTTPClient).(*http.Client).Do(r)
	if err != nil {
		return nil, plain(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxDocument))
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		e := &oauth2.RetrieveError{Response: resp}
		var said struct {
			Error       string `json:"error"`
			Description string `json:"error_description"`
		}
		if json.Unmarshal(body, &said) == nil {
			e.ErrorCode, e.ErrorDescription = said.Error, said.Description
		}
		return nil, exchangeError(e, config.ClientSecret)
	}
	return codes(body)
}

// codes parses the device authorization response.
func codes(body []byte) (*oauth2.DeviceAuthResponse, error) {
	var answer struct {
		Device   string `json:"device_code"`
		User     string `json:"user_code"`
		URI      string `json:"verification_uri"`
		Complete string `json:"verification_uri_complete"`
		Expires  int64  `json:"expires_in"`
		Interval int64  `json:"interval"`
	}
	if json.Unmarshal(body, &answer) != nil || answer.Device == "" || answer.User == "" {
		return nil, errors.New("its answer has no code")
	}
	if answer.Interval <= 0 {
		answer.Interval = defaultInterval
	}
	if answer.Expires == 0 {
		answer.Expires = maxLife
	}
	life := time.Duration(max(0, min(answer.Expires, maxLife))) * time.Second
	return &oauth2.DeviceAuthResponse{
		DeviceCode:              answer.Device,
		UserCode:                answer.User,
		VerificationURI:         answer.URI,
		VerificationURIComplete: answer.Complete,
		Interval:                min(answer.Interval, maxInterval),
		Expiry:                  time.Now().Add(life),
	}, nil
}
