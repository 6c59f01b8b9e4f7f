package inbox

import (
	"encoding/json"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/client"
)

// keptJSON has receipts keep whatever a handler's InTx gives, as JSON. No delivery is
// answered with it; InTx gives it to a handler that finds its effect there.
type keptJSON struct{}

func (keptJSON) Encode(value any) (*oncekeeper.Response, error) {
	body, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	return &oncekeeper.Response{Body: body, ContentType: client.ContentTypeJSON}, nil
}

func (keptJSON) Decode(kept *oncekeeper.Response, into any) error {
	return json.Unmarshal(kept.Body, into)
}
