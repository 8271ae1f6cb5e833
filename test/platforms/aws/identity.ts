import type { Answer } from "../http-server.ts";
import type { AwsState, Json, StoredRole } from "./state.ts";

/** STS and IAM, which answer in XML. */
/** Keys of a role that was assumed with a token. */
export const FEDERATED = { id: "ASIAFEDERATED", secret: "federated-secret", token: "federated-session" };

export function stsApi(state: AwsState, operation: string, input: Json = {}): Answer {
  if (operation === "AssumeRoleWithWebIdentity") {
    const { federation } = state;
    if (input.RoleArn !== federation?.role || input.WebIdentityToken !== federation?.token)
      return failure(403, "AccessDenied", "Not authorized to perform sts:AssumeRoleWithWebIdentity");
    const { id, secret, token } = FEDERATED;
    return xml(
      "https://sts.amazonaws.com/doc/2011-06-15/",
      operation,
      `<AssumedRoleUser><Arn>arn:aws:sts::${state.account}:assumed-role/x/${String(input.RoleSessionName)}</Arn><AssumedRoleId>A:b</AssumedRoleId></AssumedRoleUser><Credentials><AccessKeyId>${id}</AccessKeyId><SecretAccessKey>${secret}</SecretAccessKey><SessionToken>${token}</SessionToken><Expiration>2099-01-01T00:00:00Z</Expiration></Credentials>`,
    );
  }
  return xml(
    "https://sts.amazonaws.com/doc/2011-06-15/",
    operation,
    `<Arn>arn:aws:iam::${state.account}:user/dev</Arn><UserId>AIDA</UserId><Account>${state.account}</Account>`,
  );
}

export function iamApi(state: AwsState, operation: string, input: Json): Answer {
  const answer = (body = "") => xml("https://iam.amazonaws.com/doc/2010-05-08/", operation, body);
  if (operation === "SimulatePrincipalPolicy") {
    const role = [...state.roles.values()].find(({ arn }) => arn === input.PolicySourceArn);
    const allowed = [...(role?.inline.values() ?? [])].flatMap(statementsOf);
    const resources = (input.ResourceArns as string[] | undefined) ?? ["*"];
    const results = (input.ActionNames as string[]).map((action) => {
      const may = (resource: string) =>
        allowed.some(({ actions, covers }) => actions.includes(action) && covers(resource));
      const denied = role ? !resources.every(may) : state.switches.deniedActions.includes(action);
      const decision = denied ? "implicitDeny" : "allowed";
      return `<member><EvalActionName>${action}</EvalActionName><EvalDecision>${decision}</EvalDecision></member>`;
    });
    return answer(
      `<IsTruncated>false</IsTruncated><EvaluationResults>${results.join("")}</EvaluationResults>`,
    );
  }
  const name = String(input.RoleName);
  const role = state.roles.get(name);
  if (operation === "CreateRole") {
    if (role) return failure(409, "EntityAlreadyExists", `Role with name ${name} already exists.`);
    if (!/^[\w+=,.@-]{1,64}$/.test(name)) return failure(400, "ValidationError", "roleName");
    const made = createRole(state, name, input);
    return answer(`<Role>${roleXml(made)}</Role>`);
  }
  if (!role) return failure(404, "NoSuchEntity", `The role with name ${name} cannot be found.`);
  const policy = String(input.PolicyName);
  switch (operation) {
    case "GetRole":
      return answer(`<Role>${roleXml(role)}</Role>`);
    case "AttachRolePolicy":
      role.attached.add(String(input.PolicyArn));
      return answer();
    case "DetachRolePolicy":
      role.attached.delete(String(input.PolicyArn));
      return answer();
    case "ListAttachedRolePolicies":
      return answer(
        `<AttachedPolicies>${[...role.attached].map((arn) => `<member><PolicyName>${arn.split("/").at(-1)}</PolicyName><PolicyArn>${arn}</PolicyArn></member>`).join("")}</AttachedPolicies><IsTruncated>false</IsTruncated>`,
      );
    case "ListRolePolicies":
      return answer(
        `<PolicyNames>${[...role.inline.keys()].map((key) => `<member>${key}</member>`).join("")}</PolicyNames><IsTruncated>false</IsTruncated>`,
      );
    case "GetRolePolicy": {
      const document = role.inline.get(policy);
      if (document === undefined)
        return failure(404, "NoSuchEntity", `The role policy with name ${policy} cannot be found.`);
      return answer(
        `<RoleName>${name}</RoleName><PolicyName>${policy}</PolicyName><PolicyDocument>${encodeURIComponent(document)}</PolicyDocument>`,
      );
    }
    case "PutRolePolicy":
      role.inline.set(policy, String(input.PolicyDocument));
      return answer();
    case "DeleteRolePolicy":
      role.inline.delete(policy);
      return answer();
    case "DeleteRole":
      if (role.attached.size > 0 || role.inline.size > 0)
        return failure(409, "DeleteConflict", "Cannot delete entity, must detach all policies first.");
      state.roles.delete(name);
      return answer();
  }
  return failure(400, "InvalidAction", operation);
}

/** What a service says that is handed a role it cannot take on, or nothing. */
export function assumeProblem(state: AwsState, arn: unknown, principal: string): string | undefined {
  const role = [...state.roles.values()].find((one) => one.arn === arn);
  if (!role || role.principal !== principal) return `cannot assume ${String(arn)}`;
  if (role.notReady > 0) {
    role.notReady -= 1;
    return `cannot assume ${String(arn)}`;
  }
  return undefined;
}

/** What a policy allows. In a resource that is asked for, "*" is a character as any other. */
function statementsOf(document: string) {
  const policy = JSON.parse(document) as { Statement?: Json[] } & Json;
  return (policy.Statement ?? [policy]).map(({ Action, Resource }) => ({
    actions: [Action].flat() as string[],
    covers: (resource: string) =>
      ([Resource].flat() as string[]).some((one) =>
        one.endsWith("*") ? resource.startsWith(one.slice(0, -1)) : resource === one,
      ),
  }));
}

function createRole(state: AwsState, name: string, input: Json): StoredRole {
  const trust = JSON.parse(String(input.AssumeRolePolicyDocument)) as {
    Statement: { Principal: { Service: string } }[];
  };
  const role: StoredRole = {
    name,
    arn: `arn:aws:iam::${state.account}:role/${name}`,
    principal: trust.Statement[0]?.Principal.Service ?? "",
    tags: (input.Tags as StoredRole["tags"] | undefined) ?? [],
    attached: new Set(),
    inline: new Map(),
    notReady: state.switches.roleDelay,
  };
  state.roles.set(name, role);
  return role;
}

function roleXml({ name, arn, tags, principal }: StoredRole): string {
  const trust = encodeURIComponent(
    JSON.stringify({ Statement: [{ Effect: "Allow", Principal: { Service: principal } }] }),
  );
  const members = tags
    .map(({ Key, Value }) => `<member><Key>${Key}</Key><Value>${Value}</Value></member>`)
    .join("");
  return `<Path>/</Path><RoleName>${name}</RoleName><RoleId>AROA${name.length}</RoleId><Arn>${arn}</Arn><CreateDate>2026-01-01T00:00:00Z</CreateDate><AssumeRolePolicyDocument>${trust}</AssumeRolePolicyDocument><Tags>${members}</Tags>`;
}

function xml(namespace: string, operation: string, body: string): Answer {
  return {
    status: 200,
    headers: { "content-type": "text/xml" },
    body: `<${operation}Response xmlns="${namespace}"><${operation}Result>${body}</${operation}Result><ResponseMetadata><RequestId>r</RequestId></ResponseMetadata></${operation}Response>`,
  };
}

function failure(status: number, code: string, message: string): Answer {
  return {
    status,
    headers: { "content-type": "text/xml" },
    body: `<ErrorResponse xmlns="https://iam.amazonaws.com/doc/2010-05-08/"><Error><Type>Sender</Type><Code>${code}</Code><Message>${message}</Message></Error><RequestId>abc</RequestId></ErrorResponse>`,
  };
}
