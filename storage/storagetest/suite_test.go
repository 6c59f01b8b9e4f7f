package storagetest

import "testing"

func TestTheSuiteIsSatisfiable(t *testing.T) { Run(t, openReference(flaw{})) }

func TestTheModelCheckIsSatisfiable(t *testing.T) { RunModel(t, openReference(flaw{})) }
