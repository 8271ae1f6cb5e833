import { type PipelineLogin, type PipelineRequest, setSecret } from "../../deploy/ci/pipeline.ts";

const TOKEN = "DIGITALOCEAN_ACCESS_TOKEN";
const KEY = "SERVICE_API_KEY";

/** How a job signs in to DigitalOcean, which has no federation: by a token that is a secret of the repository. */
export function pipelineLogin(request: PipelineRequest<unknown>): PipelineLogin {
  const secret = (name: string) => `\${{ secrets.${name} }}`;
  const isPlan = request.right === "plan";
  return {
    ...(request.provider === "github"
      ? { env: { [TOKEN]: secret(TOKEN), ...(isPlan ? {} : { [KEY]: secret(KEY) }) } }
      : {}),
    federated: false,
    needsDocker: true,
    setup: [
      "# A token with the scopes of docs/deploy-clouds.md, which expires: create it in the control panel (API, Tokens).",
      setSecret(request, TOKEN),
      "# The service's API key, by which its open jobs are found: DigitalOcean shows no secret again.",
      setSecret(request, KEY),
    ],
    notes: [
      "DigitalOcean has no federated login: the token is a masked secret of the repository. Give it only the documented scopes, and an expiry",
    ],
  };
}
