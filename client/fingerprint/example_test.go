package fingerprint_test

import (
	"fmt"

	"google.golang.org/protobuf/types/known/apipb"
	"google.golang.org/protobuf/types/known/sourcecontextpb"

	"github.com/oncekeeper/oncekeeper/client/fingerprint"
)

// A guard looks the paths up once for each method and then digests every request.
func ExampleNewMessage() {
	digester, err := fingerprint.NewMessage((&apipb.Api{}).ProtoReflect().Descriptor(), fingerprint.MessageConfig{
		Ignore: []string{"source_context.file_name"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	first, err := digester.Fingerprint(&apipb.Api{Name: "charges", SourceContext: &sourcecontextpb.SourceContext{FileName: "a"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	retry, err := digester.Fingerprint(&apipb.Api{Name: "charges", SourceContext: &sourcecontextpb.SourceContext{FileName: "b"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(first.Scheme, len(first.Digest), first.Equal(retry))
	// Output: pb1 32 true
}

func ExampleJSON() {
	for _, body := range []string{
		`{"amount": 12.50, "to": "ann"}`,
		`{"to":"ann","amount":12.5}`,
		`{"to":"ann","amount":9007199254740992}`,
		`{"to":"ann","amount":9007199254740993}`,
		`{"to":"ann","to":"bob"}`,
	} {
		f, err := fingerprint.JSON([]byte(body))
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Printf("%.21s\n", f)
	}
	// Output:
	// jcs1:fec17d20fad34f42
	// jcs1:fec17d20fad34f42
	// jcs1:b7d60fa1f9e90e60
	// jcs1:6497ad90526bab26
	// fingerprint: not unambiguous JSON: offset 23: an object that ends here has a name twice
}

func ExampleCombine() {
	body := fingerprint.Raw([]byte("amount=12.50"))
	f := fingerprint.Combine("example1", []byte("POST"), []byte("/charges"), []byte(body.Scheme), body.Digest)
	fmt.Printf("%.25s\n", f)
	// Output: example1:5ba426d16484c75b
}
