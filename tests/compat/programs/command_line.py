import appl
from appl import gen, ppl

parser = appl.get_parser()
parser.add_argument("--name", type=str, default="APPL")
args = parser.parse_args()
appl.update_appl_configs(args.appl)


@ppl
def greeting(name: str):
    f"My name is {name}."
    return gen()


print(greeting(args.name))
