import {
  ownVariable,
  type PipelineLogin,
  type PipelineRequest,
  setSecret,
} from "../../../deploy/ci/pipeline.ts";

const TOKEN = "DIGITALOCEAN_ACCESS_TOKEN";
const KEY = "SERVICE_API_KEY";

/** How a job signs in to DigitalOcean, which has no federation: by a token that is a secret of the repository. */
export function pipelineLogin(request: PipelineRequest<unknown>): PipelineLogin {
  const own = (name: string) => ownVariable(request, name);
  const used = request.right === "plan" ? [TOKEN] : [TOKEN, KEY];
  return {
    ...(request.provider === "github"
      ? { env: Object.fromEntries(used.map((name) => [name, `\${{ secrets.${own(name)} }}`])) }
      : // By the shell: an unset one is empty there, which is unset.
        { script: used.map((name) => `export ${name}="$${own(name)}"`) }),
    federated: false,
    needsDocker: true,
    setup: [
      "# A token with the scopes of docs/deploy-clouds.md, which expires: create it in the control panel (API, Tokens).",
      setSecret(request, own(TOKEN)),
      "# The service's API key, by which its open jobs are found: DigitalOcean shows no secret again.",
      setSecret(request, own(KEY)),
    ],
    notes: [
      "DigitalOcean has no federated login: the token is a masked secret of the repository. Give it only the documented scopes, and an expiry",
    ],
  };
}
